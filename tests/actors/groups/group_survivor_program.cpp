// A rank of a job of which one is killed: group_survivor_program RANK WORLD_SIZE FILE BACKEND
// Makes FILE.runningRANK when it has begun, runs collectives without pause until one fails, checks
// the error, goes on without the dead rank, and exits with 0 if all is right.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

namespace {

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

// The rank that the error says is lost.
int lost_rank(const std::string& text) {
  const auto at = text.find(" is lost");
  const auto begin = text.rfind("rank ", at);
  expect(at != std::string::npos && begin != std::string::npos, "no rank in: " + text);
  return std::stoi(text.substr(begin + 5));
}

// Runs until a rank dies. Returns the error.
std::string run_until_a_death(const troupe::process_group& group, const std::string& running) {
  try {
    for (int i = 0;; ++i) {
      const auto size = std::int64_t{1} << (i % 18);
      const auto x = at::full({size}, group.rank(), at::kFloat);
      troupe::all_reduce(group, x);
      const auto sum = static_cast<float>(group.size() * (group.size() - 1) / 2);
      expect(x[size - 1].item<float>() == sum, "a wrong sum");
      troupe::all_reduce(group, x, troupe::async).wait();
      troupe::broadcast(group, x, i % group.size());
      if (i % 3 == 0) troupe::barrier(group);
      if (i == 0) std::ofstream{running};
    }
  } catch (const troupe::peer_lost& e) {
    return e.what();
  }
}

}  // namespace

int main(int, char** argv) {
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = std::string("file://") + argv[3];
    options.on_leader_loss = troupe::leader_loss::elect;
    const auto node = troupe::init_rpc(options);
    std::vector<int> all;
    for (int rank = 0; rank < std::stoi(argv[2]); ++rank) all.push_back(rank);
    const auto group = node.world().new_group(all, {.backend = argv[4]});
    const auto text = run_until_a_death(group, std::string(argv[3]) + ".running" + argv[1]);
    expect(text.find("sequence number") != std::string::npos, "no sequence number in: " + text);
    const auto dead = lost_rank(text);
    try {
      troupe::barrier(group);
      expect(false, "the group goes on");
    } catch (const troupe::group_failed&) {
    }
    const auto left = group.shrink({dead});
    expect(left.size() == group.size() - 1, "the group has not shrunk");
    expect(left.completed_before() > 0, "nothing was completed");
    const auto y = at::ones({100'000});
    troupe::all_reduce(left, y);
    expect(y[99'999].item<float>() == static_cast<float>(left.size()), "a wrong sum afterwards");
    troupe::barrier(left);
    node.shutdown(true, std::chrono::minutes(1));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], e.what());
    return 1;
  }
}
