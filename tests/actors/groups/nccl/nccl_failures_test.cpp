// What becomes of a group whose NCCL fails, hangs or is aborted. The double does it on request.

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <thread>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/nccl/nccl_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

at::Tensor full_on(int rank, double value) {
  return at::full({4}, value, at::TensorOptions(at::kFloat).device(device_of_rank(rank)));
}

void warm_up(local_group& all) {
  run_on_devices(all, [](const process_group& group, int rank) {
    EXPECT_EQ(all_reduce(group, full_on(rank, 1), async).result().at(0).cpu()[0].item<float>(),
              group.size());
  });
}

// The error of what `f` throws, which takes less than a second from now on.
template <class T, class F>
std::string thrown_soon(F f) {
  const auto begun = clock::now();
  auto out = thrown_text<T>(f);
  EXPECT_LT(clock::now() - begun, 1s);
  return out;
}

TEST(nccl_failures, a_call_that_fails_is_an_error_on_all_ranks) {
  local_group all(3, on_nccl_double());
  warm_up(all);
  const double_faults wrong("all_reduce:1:1:fails");
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto text =
        thrown_soon<std::exception>([&] { all_reduce(group, full_on(rank, 1), async).result(); });
    EXPECT_THAT(text, HasSubstr("ncclAllReduce has failed: unhandled system error: the double"));
    EXPECT_THAT(text, HasSubstr("all_reduce, sequence number 2 of group 'world/0,1,2#0', on rank"));
    EXPECT_THAT(thrown_text<group_failed>([&] { all_reduce(group, full_on(rank, 1)); }),
                HasSubstr("takes no more operations"));
  });
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));
}

TEST(nccl_failures, an_error_that_comes_later_ends_what_is_under_way) {
  local_group all(2, on_nccl_double());
  warm_up(all);
  const double_faults wrong("broadcast:1:0:fails_later,broadcast:1:1:hangs");
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto started = broadcast(group, full_on(rank, 1), 0, async);
    EXPECT_THAT(thrown_soon<std::exception>([&] { started.result(); }),
                HasSubstr("an operation of NCCL has failed: remote process exited"));
    EXPECT_NE(started.exception(), nullptr);
  });
}

TEST(nccl_failures, one_that_is_stuck_on_the_device_ends_at_the_timeout) {
  local_group all(2, on_nccl_double({.timeout = 300ms}));
  warm_up(all);
  const double_faults wrong("all_reduce:1:0:hangs");
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto x = full_on(rank, 1);
    const auto started = all_reduce(group, x, async);
    started.wait();  // returns: it is on its stream
    EXPECT_THAT(thrown_soon<collective_timeout>([&] { started.result(); }),
                HasSubstr("timed out after 300 ms"));
    // The device is free again.
    c10::impl::VirtualGuardImpl(accelerator::device_type)
        .synchronizeDevice(device_of_rank(rank).index());
  });
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));
}

TEST(nccl_failures, an_abort_from_outside_frees_a_stuck_operation) {
  local_group all(2, on_nccl_double());
  warm_up(all);
  const double_faults wrong("all_reduce:0:-1:hangs");
  std::atomic<int> waiting{0};
  std::thread outside([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load() == 2; }));
    all.groups[0].abort();
  });
  run_on_devices(all, [&](const process_group& group, int rank) {
    const auto started = all_reduce(group, full_on(rank, 1), async);
    const auto behind = all_reduce(group, full_on(rank, 1), async);
    ++waiting;
    EXPECT_THAT(thrown_text<group_failed>([&] { started.result(); }),
                HasSubstr("was aborted on rank 0"));
    EXPECT_THAT(thrown_text<group_failed>([&] { behind.result(); }), HasSubstr("was aborted"));
    c10::impl::VirtualGuardImpl(accelerator::device_type)
        .synchronizeDevice(device_of_rank(rank).index());
  });
  outside.join();
}

TEST(nccl_failures, an_abort_frees_a_rank_that_is_stuck_in_initialization) {
  for (const char* fault : {"init:1:1:hangs", "init:1:0:hangs", "init:0:-1:hangs"}) {
    local_group all(2, on_nccl_double());
    const double_faults wrong(fault);
    std::atomic<int> waiting{0};
    std::thread outside([&] {
      EXPECT_TRUE(eventually([&] { return waiting.load() == 2; }));
      std::this_thread::sleep_for(50ms);
      all.groups[1].abort();
    });
    run_on_devices(all, [&](const process_group& group, int rank) {
      ++waiting;
      EXPECT_THAT(thrown_text<group_failed>([&] { all_reduce(group, full_on(rank, 1)); }),
                  HasSubstr("was aborted on rank 1"));
    });
    outside.join();
  }
}

TEST(nccl_failures, initialization_that_fails_or_does_not_end_is_an_error_by_name) {
  {
    local_group all(2, on_nccl_double());
    const double_faults wrong("init:1:1:fails");
    run_on_devices(all, [&](const process_group& group, int rank) {
      EXPECT_THAT(thrown_soon<std::exception>([&] { all_reduce(group, full_on(rank, 1)); }),
                  HasSubstr("ncclCommInitRankConfig has failed: unhandled system error"));
    });
  }
  {
    local_group all(2, on_nccl_double());
    const double_faults wrong("get_unique_id:1:0:fails");
    run_on_devices(all, [&](const process_group& group, int rank) {
      EXPECT_THAT(thrown_soon<std::exception>([&] { all_reduce(group, full_on(rank, 1)); }),
                  HasSubstr("ncclGetUniqueId has failed"));
    });
  }
  local_group all(2, on_nccl_double({.timeout = 200ms}));
  run_on_devices(all, [&](const process_group& group, int rank) {
    if (rank == 0) return;
    EXPECT_THAT(thrown_soon<collective_timeout>([&] { all_reduce(group, full_on(rank, 1)); }),
                HasSubstr("rank 0 has used no device of its own yet"));
  });
}

TEST(nccl_failures, a_launch_that_does_not_end_is_freed_by_an_abort_and_by_the_timeout) {
  for (const bool aborted : {true, false}) {
    local_group all(2, on_nccl_double({.timeout = aborted ? 60'000ms : 300ms}));
    warm_up(all);
    const double_faults wrong("group_end:1:-1:hangs");
    std::thread outside([&] {
      std::this_thread::sleep_for(100ms);
      if (aborted) all.groups[0].abort();
    });
    run_on_devices(all, [&](const process_group& group, int rank) {
      const auto text =
          thrown_soon<std::exception>([&] { all_reduce(group, full_on(rank, 1), async).result(); });
      EXPECT_THAT(text, HasSubstr(aborted ? "was aborted on rank 0" : "timed out after 300 ms"));
    });
    outside.join();
  }
  // One that takes a while is no failure.
  local_group all(2, on_nccl_double());
  warm_up(all);
  const double_faults wrong("group_end:1:-1:waits50");
  warm_up(all);
}

TEST(nccl_failures, ranks_that_ask_for_other_things_err) {
  {
    local_group all(2, on_nccl_double());
    warm_up(all);
    // The double notices what NCCL would not.
    run_on_devices(all, [](const process_group& group, int rank) {
      EXPECT_THAT(thrown_soon<std::exception>([&] {
                    (rank == 0 ? all_reduce(group, full_on(rank, 1), async)
                               : broadcast(group, full_on(rank, 1), 0, async))
                        .result();
                  }),
                  HasSubstr("invalid usage"));
    });
  }
  const auto before = get_debug_level();
  set_debug_level(debug_level::detail);
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& group, int rank) {
    EXPECT_THAT(thrown_soon<collective_mismatch>([&] {
                  rank == 0 ? all_reduce(group, full_on(rank, 1))
                            : broadcast(group, full_on(rank, 1), 0);
                }),
                HasSubstr("broadcast"));
  });
  set_debug_level(before);
}

TEST(nccl_failures, a_rank_that_goes_is_an_error_on_the_others) {
  local_group all(3, on_nccl_double());
  warm_up(all);
  run_on_devices(all, [&](const process_group& group, int rank) {
    if (rank == 2) return group.destroy();
    const auto started = all_reduce(group, full_on(rank, 1), async);
    EXPECT_THAT(thrown_soon<std::exception>([&] { started.result(); }),
                HasSubstr("all_reduce, sequence number 2"));
  });
}

}  // namespace
}  // namespace troupe::test
