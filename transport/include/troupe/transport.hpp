#pragma once

// Transports of a program's own: a class derived from troupe::transport::transport, and its
// registration by name. docs/transport.md.
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/registry/transport_registry.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

using transport::job_secret;
using transport::register_transport;
using transport::transport_factory;
using transport::transport_options;
using transport::transport_request;
using transport::unregister_transport;

}  // namespace troupe
