#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "transport/loopback.hpp"

namespace troupe {

/// What carries messages between nodes.
enum class backend : std::uint8_t {
  automatic,      ///< UCX: shared memory on one host, the best network between hosts
  shared_memory,  ///< UCX, one host only
  tcp,            ///< UCX over TCP, also on one host
};

/// How to become a node of a job. Everything has a default; what is empty comes from the
/// environment.
struct rpc_options {
  std::string name{};                   ///< this worker's, unique in the job; empty: "worker<rank>"
  std::optional<std::uint32_t> rank{};  ///< empty: RANK and what MPI or Slurm set
  std::optional<std::uint32_t> world_size{};
  std::string init_method = "env://";              ///< or tcp://host:port, file:///path
  std::chrono::milliseconds init_timeout{60'000};  ///< for all nodes to come together
  std::chrono::milliseconds rpc_timeout{60'000};   ///< of calls that name none; 0: for ever
  backend transport = backend::automatic;
  std::string net_devices{};  ///< interfaces to use between hosts; empty: all
  std::string job{};          ///< empty: the launcher's
};

}  // namespace troupe
