#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::transport {

/// A transport of UCX and a device that it finds on this host.
struct ucx_device {
  enum class type : std::uint8_t { network, shared_memory, accelerator, own_process, other };

  std::string transport;  ///< "posix", "tcp", "rc_mlx5"
  std::string device;     ///< "memory", "eth0", "mlx5_0:1"
  type kind = type::other;

  bool is_rdma() const { return kind == type::network && transport != "tcp"; }
};

/// All that UCX finds; takes some milliseconds.
std::vector<ucx_device> find_ucx_devices();

/// "network", "shared memory", ...
const char* text_of(ucx_device::type kind);

}  // namespace troupe::transport
