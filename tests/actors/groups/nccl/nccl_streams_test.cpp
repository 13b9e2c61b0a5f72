// Operations on streams: what waits for what, and what does not.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/nccl/nccl_testing.hpp"

namespace troupe::test {
namespace {

using accelerator::slow;

c10::impl::VirtualGuardImpl sim() { return c10::impl::VirtualGuardImpl(accelerator::device_type); }

at::Tensor on_sim(int rank, double value, std::int64_t count = 4) {
  return at::full({count}, value, at::TensorOptions(at::kFloat).device(device_of_rank(rank)));
}

float first_of(const at::Tensor& tensor) { return tensor.cpu()[0].item<float>(); }

class nccl_streams : public testing::Test {
protected:
  // With a communicator that is there.
  nccl_streams() {
    run_on_devices(all_, [](const process_group& group, int rank) {
      all_reduce(group, on_sim(rank, 0));
      sim().synchronizeDevice(device_of_rank(rank).index());
    });
  }

  local_group all_{2, on_nccl_double()};
};

// PyTorch's example of streams: "if the explicit call to wait_stream was omitted, the output below
// will be non-deterministically 1 or 101".
TEST_F(nccl_streams, the_sample_of_pytorch_prints_101) {
  run_on_devices(all_, [](const process_group& group, int rank) {
    for (int round = 0; round < 20; ++round) {
      const auto output = on_sim(rank, rank, 1);
      const auto device = device_of_rank(rank);
      const auto other = sim().getStreamFromGlobalPool(device);
      const auto handle = all_reduce(group, output, async);
      // Wait ensures the operation is enqueued, but not necessarily complete.
      handle.wait();
      {
        c10::Event done(accelerator::device_type);
        done.record(sim().getStream(device));
        const c10::StreamGuard on(other);
        done.block(other);
        output.add_(100);
        EXPECT_EQ(first_of(output), 101);
      }
    }
  });
}

TEST_F(nccl_streams, neither_form_holds_up_the_host) {
  run_on_devices(all_, [](const process_group& group, int rank) {
    const auto x = on_sim(rank, 1), y = on_sim(rank, 2);
    sim().synchronizeDevice(device_of_rank(rank).index());
    // Of both ranks.
    barrier(group);
    const auto before = accelerator::counted();
    barrier(group);
    const slow late(100ms);
    const auto begun = clock::now();
    const auto started = all_reduce(group, x, async);
    all_reduce(group, y);
    started.wait();
    x.add_(1);
    EXPECT_LT(clock::now() - begun, 90ms);
    EXPECT_FALSE(started.is_completed());
    EXPECT_EQ(accelerator::counted().device_synchronizations, before.device_synchronizations);
    EXPECT_EQ(accelerator::counted().stream_synchronizations, before.stream_synchronizations);
    EXPECT_EQ(accelerator::counted().event_synchronizations, before.event_synchronizations);
    barrier(group);
    EXPECT_EQ(first_of(x), 3);
    EXPECT_EQ(first_of(y), 4);
    EXPECT_GE(clock::now() - begun, 100ms);
  });
}

TEST_F(nccl_streams, an_operation_waits_for_what_the_caller_has_in_hand) {
  run_on_devices(all_, [](const process_group& group, int rank) {
    const auto device = device_of_rank(rank);
    for (int round = 0; round < 10; ++round) {
      const auto x = on_sim(rank, 0);
      const slow late(5ms);
      // On a stream of the program's own.
      const auto mine = sim().getStreamFromGlobalPool(device);
      c10::Event made(accelerator::device_type);
      made.record(sim().getStream(device));
      const c10::StreamGuard on(mine);
      made.block(mine);
      x.fill_(rank + 1);
      const auto started = all_reduce(group, x, async);
      started.wait();
      x.mul_(2);
      EXPECT_EQ(first_of(x), 6);
      all_reduce(group, x);
      EXPECT_EQ(first_of(x), 12);
    }
  });
}

TEST_F(nccl_streams, works_end_when_the_device_has_done_them) {
  run_on_devices(all_, [](const process_group& group, int rank) {
    const auto x = on_sim(rank, rank);
    const auto started = all_reduce(group, x, async);
    std::atomic<bool> continued{false};
    started.get_future().then([&](const future<std::vector<at::Tensor>>&) { continued = true; });
    EXPECT_EQ(first_of(started.result().at(0)), 1);
    EXPECT_TRUE(eventually([&] { return continued.load(); }));
    EXPECT_TRUE(started.is_completed());
    EXPECT_TRUE(started.is_success());
    EXPECT_GT(started.duration().count(), 0);
    EXPECT_EQ(started.sequence_number(), group.sequence_number());
    // With a limit the host waits.
    const slow late(20ms);
    const auto next = all_reduce(group, x, async);
    next.wait(10s);
    EXPECT_TRUE(next.is_completed());
    EXPECT_EQ(first_of(x), 2);
  });
}

// Of devices and of the CPU in one group: each in its order.
TEST_F(nccl_streams, a_thousand_operations_may_be_under_way) {
  accelerator::set_delay(0us, 20us);
  run_on_devices(all_, [](const process_group& group, int rank) {
    const auto x = on_sim(rank, 1), y = at::ones({2});
    std::vector<work> started;
    for (int i = 0; i < 500; ++i) {
      started.push_back(all_reduce(group, x, reduce_op::avg, async));
      started.push_back(all_reduce(group, y, reduce_op::max, async));
    }
    for (const auto& one : started) one.result();
    EXPECT_EQ(first_of(x), 1);
    EXPECT_EQ(y[0].item<float>(), 1);
    EXPECT_EQ(group.sequence_number(), started.back().sequence_number());
  });
  accelerator::set_delay(0us, 200us);
}

}  // namespace
}  // namespace troupe::test
