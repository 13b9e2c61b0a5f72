// Rows about tensors on a GPU. All ranks share the first one.
#include "tests/bench/device_rows.hpp"

#include <ATen/DeviceGuard.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::bench {

namespace {

const c10::Device gpu(c10::kCUDA, 0);

// A call has returned only when its tensor is there, not when a stream has been told to fetch it.
std::vector<measurement> identity_cuda(const node& here) {
  if (detail::device_count(memory_place::kind::cuda) == 0)
    throw not_here("libtorch finds no GPU here");
  const c10::impl::VirtualGuardImpl device(c10::kCUDA);
  std::vector<measurement> measured;
  for (const std::size_t size :
       {std::size_t{4}, std::size_t{64} << 10, mib, 4 * mib, 64 * mib, std::size_t{400'000'000}}) {
    const auto tensor =
        at::ones({static_cast<std::int64_t>(size / 4)}, at::TensorOptions().device(gpu));
    const effort how{.least = 5, .warm_up = 5};
    const auto call = [&] {
      here.rpc_sync<&echo>(peer, tensor);
      device.synchronizeDevice(gpu.index());
    };
    measured.push_back(times_of(call_times(call, how), size));
  }
  return measured;
}

}  // namespace

rpc_options gpu_options() {
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  rpc_options options;
  if (detail::device_count(memory_place::kind::cuda) > 0)
    options.device_maps = {{peer, {{gpu.str(), gpu.str()}}}};
  return options;
}

const std::map<std::string, row>& device_rows() {
  static const std::map<std::string, row> all = {{"identity_cuda", identity_cuda}};
  return all;
}

}  // namespace troupe::bench
