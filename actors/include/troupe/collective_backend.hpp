#pragma once

// Backends of collectives of a program's own: a class derived from troupe::collective_backend, and
// its registration by name, which groups name in group_options::backend. docs/collectives.md.
#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"

namespace troupe {

using collective_backend = groups::backend;
using groups::backend_factory;
using groups::backend_names;
using groups::backend_request;
using groups::group_member;
using groups::is_backend_available;
using groups::member_exchange;
using groups::operation;
using groups::operation_kind;
using groups::register_backend;
using groups::time_limit;
using groups::unregister_backend;

}  // namespace troupe
