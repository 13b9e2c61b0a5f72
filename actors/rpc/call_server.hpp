#pragma once

#include <memory>

#include "troupe/actors/messaging/active_calls.hpp"
#include "troupe/actors/remote/remote_actors.hpp"

namespace troupe {

/// What an answer needs of the node that gives it, for as long as it is not given: calls may be
/// answered after their node has ended.
struct call_server {
  const std::shared_ptr<remote_actors> actors;
  active_calls active;
};

}  // namespace troupe
