#pragma once

#include <string>
#include <string_view>

#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::transport::ucx {

/// Whether a node with these options may listen on a network.
bool uses_network(const ucx_options& o);

/// The UCX transports that a node may use, in the form of UCX's setting TLS.
///
/// `wanted` is what the user asks for in the same form ("posix,cma", "^knem"), or empty. It is
/// reduced to what other users cannot misuse: segments of System V, which UCX opens to the user's
/// group, are left out, and what listens on a network, unless the options allow it. Throws
/// transport_error when nothing is left.
std::string permitted_transports(const ucx_options& o, std::string_view wanted = {});

}  // namespace troupe::transport::ucx
