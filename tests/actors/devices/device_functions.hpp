#pragma once

#include <ATen/TensorOperators.h>

#include <string>

#include "tests/accelerator/accelerator.hpp"
#include "tests/actors/node/job.hpp"

// What ranks in processes of their own call of one another.
namespace troupe::test {

inline at::Tensor fourfold(const at::Tensor& x) { return x * 2 * 2; }
inline rref<at::Tensor> kept_fourfold(const node& from, const std::string& to,
                                      const at::Tensor& x) {
  return from.remote<&fourfold>(to, x);
}
inline std::string device_there(const at::Tensor& x) { return x.device().str(); }
inline std::uint64_t device_synchronizations() {
  return accelerator::counted().device_synchronizations;
}

/// Of `rank` among two over `transport`, whose devices 0 and 1 are mapped crosswise.
inline rpc_options with_devices(const std::string& rank, const std::string& transport,
                                const std::string& file) {
  rpc_options options;
  options.rank = static_cast<std::uint32_t>(std::stoi(rank));
  options.world_size = 2;
  options.name = "rank" + rank;
  if (transport == "tcp") options.transport = backend::tcp;
  options.init_method = "file://" + file;
  options.devices = {"sim:0", "sim:1"};
  options.device_maps[rank == "0" ? "rank1" : "rank0"] = {{"sim:0", "sim:1"}, {"sim:1", "sim:0"}};
  return options;
}

}  // namespace troupe::test
