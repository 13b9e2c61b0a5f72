#pragma once

#include <string>
#include <string_view>

#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::transport::ucx {

/// May a node with these options listen on a network?
bool uses_network(const ucx_options& o);

/// Which of UCX's transports a node may use, as UCX's setting TLS has it.
///
/// `wanted` is what somebody asks for in the same form ("posix,cma", "^knem"), or empty. Of that,
/// nothing is left that others could misuse: segments of System V, which UCX opens to the user's
/// group, and what listens on a network, unless the options allow that. Throws transport_error
/// when nothing is left at all.
std::string permitted_transports(const ucx_options& o, std::string_view wanted = {});

}  // namespace troupe::transport::ucx
