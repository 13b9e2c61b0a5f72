// A rank of a job whose ranks kill themselves, one after the other, in the middle of random
// collectives, or while groups are made: group_kills_program RANK WORLD_SIZE FILE BACKEND SEED
// KILLS collectives|making. The seed says who dies when. Survivors check the error, shrink the
// group, and go on. Exits with 0 if all was right, and prints how long after the kills this rank
// had its errors.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

#include "tests/actors/groups/collective_matrix.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {
namespace {

std::int64_t now_in_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

class killed_group {
public:
  killed_group(process_group group, std::string file, std::uint64_t seed, bool makes)
      : group_(std::move(group)), file_(std::move(file)), makes_(makes), random_(seed) {}

  // One of the group dies; the others go on without it.
  void play(int round) {
    const auto victim =
        static_cast<int>(random_.next() % static_cast<std::uint64_t>(group_.size()));
    const auto pause = std::chrono::microseconds(random_.next() % 30'000);
    barrier(group_);
    const auto noted = file_ + ".killed" + std::to_string(round);
    std::optional<std::thread> killer;
    if (group_.rank() == victim) {
      killer.emplace([&noted, pause] {
        std::this_thread::sleep_for(pause);
        std::ofstream(noted) << now_in_ns() << std::flush;
        kill(getpid(), SIGKILL);
      });
    }
    const auto text = makes_ ? make_until_a_death() : run_until_a_death();
    const auto known = now_in_ns();
    expect(text.find("rank " + std::to_string(victim)) != std::string::npos &&
               text.find("lost") != std::string::npos,
           "not the lost rank, " + std::to_string(victim) + ": " + text);
    // This rank may have heard of it between two operations.
    expect((text.find("sequence number") != std::string::npos ||
            text.find("takes no more operations") != std::string::npos ||
            (makes_ && text.find("was not made") != std::string::npos)) &&
               text.find("on rank " + std::to_string(group_.rank())) != std::string::npos,
           "too little in: " + text);
    try {
      barrier(group_);
      expect(false, "the group goes on");
    } catch (const group_failed&) {
    } catch (const peer_lost&) {
      // The one that was made may have heard of it a moment before.
      if (!makes_) throw;
    }
    std::int64_t killed = 0;
    std::ifstream(noted) >> killed;
    expect(killed > 0, "nobody was killed");
    slowest_ms = std::max(slowest_ms, static_cast<double>(known - killed) / 1e6);
    expect(!makes_ || slowest_ms < 1000, "an error after " + std::to_string(slowest_ms) + " ms");
    if (makes_) expect_group_without(victim);
    const auto left = group_.shrink({victim});
    expect(left.size() == group_.size() - 1, "the group has not shrunk");
    expect(left.completed_before() > 0, "not even the barrier was completed");
    group_ = left;
    for (int i = 0; i < 3; ++i) run_one();
  }

  double slowest_ms = 0;

private:
  std::string run_until_a_death() {
    try {
      // All ranks draw the same, but each gets another number of them done.
      random_source operations(random_.next());
      for (;;) run_one(operations);
    } catch (const peer_lost& e) {
      return e.what();
    } catch (const group_failed& e) {
      return e.what();
    }
  }

  // All ranks have their places in each of the groups, so errors name them alike.
  std::string make_until_a_death() {
    std::vector<int> all;
    for (int rank = 0; rank < group_.size(); ++rank) all.push_back(rank);
    random_source operations(random_.next());
    try {
      for (;;) {
        const auto drawn = operations.next();
        const auto made = drawn % 2 == 0 ? group_.new_group(all) : group_.split(0, group_.rank());
        if (drawn % 8 < 4) barrier(made);
        if (drawn % 16 < 8) made.destroy();
        // The others have made it as well.
        barrier(group_);
      }
    } catch (const peer_lost& e) {
      return e.what();
    } catch (const group_failed& e) {
      return e.what();
    }
  }

  // One that has failed can still say who is in a new one.
  void expect_group_without(int victim) {
    std::vector<int> others;
    for (int rank = 0; rank < group_.size(); ++rank)
      if (rank != victim) others.push_back(rank);
    const auto left = group_.new_group(others);
    const auto x = at::full({1'000}, left.rank(), at::kInt);
    all_reduce(left, x);
    expect(x[999].item<int>() == left.size() * (left.size() - 1) / 2, "a sum of survivors");
  }

  void run_one() {
    random_source operations(random_.next());
    run_one(operations);
  }

  void run_one(random_source& random) {
    const auto drawn = random.next();
    const auto size = group_.size();
    const std::int64_t count = std::int64_t{1} << (drawn / 8 % 20);
    switch (drawn % 8) {
      case 0: return check_matrix_case(group_, drawn_case(drawn / 8));
      case 1: return barrier(group_);
      case 2: {
        const auto src = static_cast<int>(drawn / 1024 % static_cast<std::uint64_t>(size));
        const auto x = at::full({count}, group_.rank(), at::kFloat);
        broadcast(group_, x, src);
        return expect(x[count - 1].item<int>() == src, "a copy");
      }
      case 3: {
        std::vector<work> works;
        std::vector<at::Tensor> all;
        for (int i = 0; i < 4; ++i) {
          all.push_back(at::full({count / (i + 1) + 1}, i, at::kInt));
          works.push_back(all_reduce(group_, all.back(), async));
        }
        for (const auto& one : works) one.wait();
        for (int i = 0; i < 4; ++i)
          expect(all[static_cast<std::size_t>(i)][0].item<int>() == i * size, "a sum of a work");
        return;
      }
      default: {
        const auto x = at::full({count}, group_.rank(), at::kFloat);
        all_reduce(group_, x);
        const auto sum = size * (size - 1) / 2;
        expect(x[0].item<int>() == sum && x[count - 1].item<int>() == sum, "a sum");
      }
    }
  }

  static matrix_case drawn_case(std::uint64_t drawn) {
    using groups::operation_kind;
    static constexpr operation_kind kinds[] = {operation_kind::reduce,
                                               operation_kind::all_gather,
                                               operation_kind::all_gather_into_tensor,
                                               operation_kind::gather,
                                               operation_kind::scatter,
                                               operation_kind::reduce_scatter,
                                               operation_kind::reduce_scatter_tensor,
                                               operation_kind::all_to_all,
                                               operation_kind::all_to_all_single};
    return {kinds[drawn % std::size(kinds)], at::kFloat, reduce_op::sum,
            shape_class(drawn / 16 % shape_classes)};
  }

  process_group group_;
  const std::string file_;
  const bool makes_;
  random_source random_;
};

}  // namespace
}  // namespace troupe::test

int main(int, char** argv) {
  using namespace troupe::test;
  try {
    troupe::rpc_options options;
    options.rank = static_cast<std::uint32_t>(std::stoi(argv[1]));
    options.world_size = static_cast<std::uint32_t>(std::stoi(argv[2]));
    options.init_method = std::string("file://") + argv[3];
    options.on_leader_loss = troupe::leader_loss::elect;
    const auto node = troupe::init_rpc(options);
    std::vector<int> all;
    for (int rank = 0; rank < std::stoi(argv[2]); ++rank) all.push_back(rank);
    troupe::group_options how{.backend = argv[4]};
    // As if they were two: an odd number of ranks uses messages between all.
    if (how.backend == "cpu:hosts")
      how.backend_options["collectives"] = "network.piece=16384,network.hosts=2";
    killed_group run(node.world().new_group(all, how), argv[3], std::stoull(argv[5]),
                     std::string(argv[7]) == "making");
    for (int round = 0; round < std::stoi(argv[6]); ++round) run.play(round);
    node.shutdown(true, std::chrono::minutes(1));
    std::printf("rank %s: the slowest error came after %.1f ms\n", argv[1], run.slowest_ms);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], e.what());
    return 1;
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 2 : 0;
}
