#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe::transport {

/// How a process finds its job.
struct rendezvous_options {
  /// "env://", "tcp://HOST:PORT", "file:///PATH" or a URL of a scheme that has a handler (see
  /// handlers.hpp); but for env they may end in "?rank=R&world_size=N".
  /// env:// takes the launcher's variables (see environment.hpp). At tcp:// and env:// rank 0
  /// listens, on the address of HOST alone.
  std::string init_method = "env://";

  /// If not here, nor in `init_method`, they come from the environment.
  std::optional<std::uint32_t> rank, world_size;

  /// The worker's name, at most 127 characters of [A-Za-z0-9_:-]; empty: "worker<rank>".
  std::string name;

  /// For everything together; failures are reported within it (and half a second more, for rank 0
  /// to notify the others).
  std::chrono::milliseconds timeout{60'000};

  /// The job's name; empty: see read_job_name.
  std::string job;

  /// Others may join the job while it runs (see join_service.hpp); the same on all ranks.
  bool dynamic = false;

  /// Called on rank 0 as soon as it listens, with the port that was chosen if port 0 was asked for.
  std::function<void(std::uint16_t port)> on_listening;

  /// Where variables are looked up; empty: this process's environment.
  environment variables;
};

}  // namespace troupe::transport
