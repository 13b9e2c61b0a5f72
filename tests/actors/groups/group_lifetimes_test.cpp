// Groups with and without calls of functions in one process, made and ended in any order, again and
// again.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <optional>

#include "tests/actors/groups/group_testing.hpp"
#include "tests/free_port.hpp"

namespace troupe::test {
namespace {

constexpr int life_ranks = 2;

int add_one_here(int x) { return x + 1; }

/// How the ranks meet, and what carries their messages.
struct meeting {
  const char* name;
  bool over_tcp;
};
void PrintTo(const meeting& one, std::ostream* out) { *out << one.name; }

// The ranks of one test meet by a store each time: at another port, or by another file.
class lifetimes : public testing::TestWithParam<meeting> {
protected:
  rpc_options place(const std::string& what) {
    rpc_options out;
    out.world_size = std::uint32_t{life_ranks};
    if (GetParam().over_tcp) {
      out.transport = backend::tcp;
      out.init_method = "tcp://127.0.0.1:" + std::to_string(free_port());
    } else {
      out.init_method = "file://" + (folder_.path() / what).string();
    }
    return out;
  }

  static rpc_options at(rpc_options where, int rank) {
    where.rank = static_cast<std::uint32_t>(rank);
    return where;
  }

  /// `body(rank)` on all ranks, each a thread of its own.
  template <class F>
  static void on_ranks(F body) {
    std::vector<int> ranks(life_ranks);
    on_each(ranks, [&](int, int rank) { body(rank); });
  }

private:
  const temporary_folder folder_;
};

INSTANTIATE_TEST_SUITE_P(meetings, lifetimes,
                         testing::Values(meeting{"file", false}, meeting{"tcp", true}),
                         [](const auto& info) { return std::string(info.param.name); });

void check_group(const process_group& group) {
  barrier(group);
  for (const std::int64_t count : {3, 20'000}) {
    const auto x = at::full({count}, group.rank() + 1, at::kInt);
    all_reduce(group, x);
    EXPECT_EQ(x[count - 1].item<int>(), 3);
  }
}

void check_calls(const node& here) {
  const auto other = "worker" + std::to_string(1 - static_cast<int>(here.rank()));
  EXPECT_EQ(here.rpc_sync<add_one_here>(other, 4), 5);
  check_group(here.world());
}

TEST_P(lifetimes, begin_with_calls_or_collectives_and_end_with_either) {
  for (const bool calls_first : {true, false}) {
    for (const bool calls_end_first : {true, false}) {
      const auto meet = std::to_string(calls_first) + std::to_string(calls_end_first);
      const auto for_calls = place("calls" + meet), alone = place("alone" + meet);
      on_ranks([&](int rank) {
        std::optional<node> before;
        if (calls_first) before = init_rpc(at(for_calls, rank));
        const auto group = init_process_group("troupe", at(alone, rank));
        auto calls = before ? *before : init_rpc(at(for_calls, rank));
        check_calls(calls);
        check_group(group);
        if (calls_end_first) {
          calls.shutdown(true, time_limit);
          check_group(group);
          destroy_process_group(group);
        } else {
          destroy_process_group(group);
          EXPECT_THROW(barrier(group), group_failed);
          check_calls(calls);
          calls.shutdown(true, time_limit);
        }
        EXPECT_THROW(barrier(group), group_failed);
        EXPECT_THROW(calls.world(), not_initialized);
      });
    }
  }
}

TEST_P(lifetimes, of_collectives_alone_begin_and_end_twenty_times) {
  for (int i = 0; i < 20; ++i) {
    const auto where = place("alone" + std::to_string(i));
    on_ranks([&](int rank) {
      const auto group = init_process_group("cpu:troupe", at(where, rank));
      check_group(group);
      destroy_process_group(group);
    });
  }
}

TEST_P(lifetimes, of_worlds_begin_and_end_twenty_times_with_their_nodes) {
  for (int i = 0; i < 20; ++i) {
    const auto where = place("world" + std::to_string(i));
    on_ranks([&](int rank) {
      auto here = init_rpc(at(where, rank));
      check_calls(here);
      here.shutdown(true, time_limit);
    });
  }
}

}  // namespace
}  // namespace troupe::test
