// NCCL itself, on GPUs: what the double shows without one. Skips where there is none.

#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstdlib>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/nccl/nccl_testing.hpp"
#include "troupe/actors/groups/nccl/nccl_functions.hpp"
#include "troupe/actors/groups/nccl/nccl_operations.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {
namespace {

using groups::nccl::nccl_functions;

int gpus() {
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  return detail::device_count(memory_place::kind::cuda);
}

c10::Device gpu_of(int rank) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(rank % gpus())}; }

// Why as many ranks cannot run here; empty: they can.
std::string reason_against(int ranks) {
  if (gpus() == 0) return "libtorch finds no GPU here";
  std::shared_ptr<const nccl_functions> found;
  try {
    found = nccl_functions::open(groups::nccl::default_library());
  } catch (const std::exception& e) {
    return e.what();
  }
  if (ranks <= gpus()) return {};
  if (found->version < 23000)
    return "there are fewer GPUs than ranks, and NCCL " +
           groups::nccl::version_text(found->version) + " puts one rank on each: 2.30 can put more";
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  return {};
}

class nccl_on_gpus : public testing::TestWithParam<int> {
protected:
  void SetUp() override {
    if (const auto why = reason_against(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }

  void on_all(const std::function<void(const process_group&, int)>& body) {
    local_group all(GetParam(), {.timeout = 60s, .backend = "cpu:troupe,cuda:nccl"});
    all.run([&](const process_group& group, int rank) {
      const c10::DeviceGuard current(gpu_of(rank));
      const conformance_device here(gpu_of(rank));
      body(group, rank);
    });
  }
};

TEST_P(nccl_on_gpus, do_what_every_backend_does) {
  on_all([](const process_group& group, int) {
    for (const auto dtype : moved_dtypes()) {
      check_broadcast(group, dtype, 13);
      check_gathers(group, dtype, 13);
      check_all_to_all(group, dtype, 13);
      for (const auto op : reductions_of(dtype))
        // NCCL divides integers, and rounds 8-bit floats, in ways of its own.
        if (groups::nccl::can_reduce(op, dtype) && op != reduce_op::avg &&
            !c10::isFloat8Type(dtype))
          check_reductions(group, dtype, op, 13);
    }
    check_reductions(group, at::kFloat, reduce_op::avg, 1'000'003);
    check_coalesced(group);
    check_shapes(group);
    check_in_place(group);
  });
}

TEST_P(nccl_on_gpus, put_operations_on_streams) {
  on_all([](const process_group& group, int rank) {
    const auto x =
        at::full({1 << 24}, rank + 1, at::TensorOptions(at::kFloat).device(gpu_of(rank)));
    const auto sum = group.size() * (group.size() + 1) / 2;
    for (int round = 0; round < 20; ++round) {
      x.fill_(rank + 1);
      const auto started = all_reduce(group, x, async);
      started.wait();
      x.add_(1);
      EXPECT_EQ(x[(1 << 24) - 1].cpu().item<float>(), sum + 1);
    }
  });
}

TEST_P(nccl_on_gpus, are_split_and_shrunk) {
  on_all([](const process_group& group, int rank) {
    const auto options = at::TensorOptions(at::kLong).device(gpu_of(rank));
    all_reduce(group, at::full({1}, 1, options));
    const auto part = group.split(rank % 2);
    const auto x = at::full({1}, 1, options);
    all_reduce(part, x);
    EXPECT_EQ(x.cpu().item<std::int64_t>(), part.size());
    if (group.size() < 2 || rank == group.size() - 1) return;
    const auto left = group.shrink({group.size() - 1});
    all_reduce(left, x.fill_(1));
    EXPECT_EQ(x.cpu().item<std::int64_t>(), left.size());
  });
}

// One rank waits for another that never comes: on the device, and in the making of a communicator.
TEST_P(nccl_on_gpus, are_freed_by_an_abort) {
  if (GetParam() < 2) GTEST_SKIP() << "one rank waits for nobody";
  for (const bool made : {true, false}) {
    on_all([&](const process_group& group, int rank) {
      const auto options = at::TensorOptions(at::kLong).device(gpu_of(rank));
      if (made) {
        all_reduce(group, at::full({1}, 1, options));
        c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(gpu_of(rank).index());
      }
      if (rank == 1) {
        std::this_thread::sleep_for(500ms);
        return group.abort();
      }
      EXPECT_THAT(thrown_text<group_failed>(
                      [&] { all_reduce(group, at::full({1}, 1, options), async).result(); }),
                  testing::HasSubstr("was aborted on rank 1"));
      c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(gpu_of(rank).index());
    });
  }
}

TEST_P(nccl_on_gpus, move_data_at_the_speed_of_the_device) {
  on_all([](const process_group& group, int rank) {
    const c10::impl::VirtualGuardImpl device(c10::kCUDA);
    for (const std::int64_t bytes :
         {std::int64_t{4}, std::int64_t{1} << 20, std::int64_t{1} << 28}) {
      const auto x = at::full({bytes / 4}, 1, at::TensorOptions(at::kFloat).device(gpu_of(rank)));
      const int times = bytes > (1 << 20) ? 20 : 200;
      all_reduce(group, x, reduce_op::max);
      device.synchronizeDevice(gpu_of(rank).index());
      const auto begun = clock::now();
      for (int i = 0; i < times; ++i) all_reduce(group, x, reduce_op::max);
      device.synchronizeDevice(gpu_of(rank).index());
      const auto us =
          std::chrono::duration<double, std::micro>(clock::now() - begun).count() / times;
      if (rank == 0)
        std::cout << "measured: all_reduce of " << bytes << " bytes, " << group.size()
                  << " ranks: " << us << " us, " << static_cast<double>(bytes) / us / 1e3 << " GB/s"
                  << std::endl;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, nccl_on_gpus, testing::Values(1, 2));

}  // namespace
}  // namespace troupe::test
