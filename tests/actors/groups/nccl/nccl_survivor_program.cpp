// A rank of a job of which one is killed while all are inside of NCCL's double:
// nccl_survivor_program RANK WORLD_SIZE FILE DEAD PLACE
// PLACE is collective, init or split. Makes FILE.runningRANK when it goes there, FILE.failedRANK
// when that has failed, checks the error, goes on without the rank DEAD, and exits with 0 if all is
// right.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

#include "tests/actors/groups/nccl/nccl_testing.hpp"

namespace {

using namespace troupe;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

std::int64_t sum_of_ones(const process_group& group) {
  const auto x = at::full({1000}, 1, at::TensorOptions(at::kLong).device(test::device_of_rank(0)));
  all_reduce(group, x, async).result();
  return x.cpu()[999].item<std::int64_t>();
}

// Goes where it is to be when one dies. Never returns without an error.
void run_until_a_death(const process_group& group, const std::string& place,
                       const std::string& running, bool dies) {
  if (place == "collective") {
    for (int i = 0;; ++i) {
      expect(sum_of_ones(group) == group.size(), "a wrong sum");
      if (i == 0) std::ofstream{running};
    }
  }
  if (place == "split") sum_of_ones(group);
  std::unique_ptr<test::double_faults> wrong;
  if (dies) wrong = std::make_unique<test::double_faults>(place + ":1:-1:hangs");
  std::ofstream{running};
  if (place == "split")
    group.split(0);
  else
    sum_of_ones(group);
  expect(false, "nothing has failed");
}

}  // namespace

int main(int, char** argv) {
  try {
    const std::string file = argv[3], place = argv[5];
    const int dead = std::stoi(argv[4]);
    rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = "file://" + file;
    options.on_leader_loss = leader_loss::elect;
    const auto node = init_rpc(options);
    std::vector<int> all;
    for (int rank = 0; rank < std::stoi(argv[2]); ++rank) all.push_back(rank);
    const auto group = node.world().new_group(all, test::on_nccl_double());
    const c10::DeviceGuard current(test::device_of_rank(0));
    std::string text;
    try {
      run_until_a_death(group, place, file + ".running" + argv[1], std::stoi(argv[1]) == dead);
    } catch (const peer_lost& e) {
      text = e.what();
    }
    std::ofstream{file + ".failed" + argv[1]};
    expect(text.find("rank " + std::to_string(dead) + " is lost") != std::string::npos,
           "the dead rank is not named: " + text);
    expect(text.find("group '" + group.name() + "'") != std::string::npos,
           "the group is not named: " + text);
    const auto left = group.shrink({dead});
    expect(sum_of_ones(left) == group.size() - 1, "a wrong sum afterwards");
    barrier(left);
    node.shutdown(true, std::chrono::minutes(1));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], e.what());
    return 1;
  }
}
