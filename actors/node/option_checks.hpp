#pragma once

#include "troupe/actors/node/options.hpp"
#include "troupe/transport/tcp/tcp_settings.hpp"

namespace troupe {

/// Checks what can be known to be wrong before a node meets others. Throws invalid_argument, which
/// names the option and what it may be. The other founders get it from `init_rpc`.
void check_options(const rpc_options& options);

namespace detail {

/// The options that must be the same on all nodes.
job_rules rules_of(const rpc_options& options);

/// What `options` and the environment say of TCP. Throws invalid_argument.
transport::tcp_options network_settings(const rpc_options& options);

}  // namespace detail

}  // namespace troupe
