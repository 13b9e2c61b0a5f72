#pragma once

#include <caf/actor_control_block.hpp>
#include <caf/fwd.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "troupe/actors/messaging/reply_sink.hpp"

namespace troupe {

class remote_actors;

namespace detail {

class future_core;

/// While it lives, the table of requests has an entry for a request to an actor of this node.
class local_request {
public:
  local_request() = default;
  /// Throws not_initialized when the node has ended.
  local_request(const std::shared_ptr<remote_actors>& actors, std::string_view message,
                std::chrono::milliseconds limit, const std::shared_ptr<reply_sink>& sink);
  local_request(local_request&&) = default;
  local_request& operator=(local_request&&) = default;
  ~local_request();

private:
  std::weak_ptr<remote_actors> actors_;
  std::uint64_t id_ = 0;
};

/// Puts an actor's answer into its future; see `take_answer`. `message`: what was asked, static
/// text.
using answer_taker = void (*)(future_core& out, caf::message& answer, caf::actor_system* system,
                              std::string_view message);

/// The sender of a request to an actor of its own node, which takes the answer on behalf of
/// `state`, by `take`. If it is dropped without an answer, the future fails. `message`: static
/// text.
caf::strong_actor_ptr make_answer_cell(caf::actor_system& system,
                                       std::shared_ptr<future_core> state, answer_taker take,
                                       local_request&& entry, std::string_view message);

}  // namespace detail

}  // namespace troupe
