#pragma once

#include <functional>
#include <optional>
#include <string>

#include "troupe/transport/auth/stream_protection.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport {

/// What a program says of its connections between hosts. What is empty comes from the environment.
///
/// | setting | value | environment | without both |
/// | --- | --- | --- | --- |
/// | interfaces | names, separated by commas: "eth0,eth1" | TROUPE_INTERFACES | all |
/// | ports | a port, or a range: "40000-40100" | TROUPE_PORTS | any |
/// | protection | off, authenticate or encrypt | TROUPE_ENCRYPTION | authenticate |
///
/// TROUPE_TCP_STREAMS, 1 to 16, is the number of streams to a peer for large payloads, and
/// TROUPE_TCP_THREADS, 1 or 2, that of the threads which write and read them.
struct tcp_settings {
  std::string interfaces{};
  std::string ports{};
  std::optional<stream_protection> protection{};
};

/// As rendezvous/environment.hpp has it.
using variable_lookup = std::function<std::optional<std::string>(const char* name)>;

/// The options for `given`. Throws invalid_argument that names the option or the variable.
tcp_options read_tcp_settings(const tcp_settings& given, const variable_lookup& variables);

}  // namespace troupe::transport
