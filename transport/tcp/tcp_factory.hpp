#pragma once

#include <chrono>
#include <string>

#include "troupe/transport/tcp/tcp_transport.hpp"
#include "troupe/transport/transport_options.hpp"

namespace troupe::transport {

/// The options of TCP as a program writes them, `rpc_options::transport_options`:
///
/// | name | value | without it |
/// | --- | --- | --- |
/// | interfaces | names, separated by commas: "eth0,eth1" | TROUPE_INTERFACES, or all |
/// | ports | a port, or a range: "40000-40100" | any |
/// | encryption | "off", "authenticate" or "encrypt" | "authenticate" |
/// | streams | streams to a peer for large payloads, 1 to 16 | 2 |
///
/// `one_host`: all nodes are on this host: without `interfaces`, only the loopback interface is
/// used. `variable`: the value of TROUPE_INTERFACES. Throws invalid_argument that names the option.
tcp_options read_tcp_options(const transport_options& given, bool one_host,
                             const std::string& variable);

}  // namespace troupe::transport
