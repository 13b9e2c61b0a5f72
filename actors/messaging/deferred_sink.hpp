#pragma once

#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

/// The sink of a node's transport until the node exists. The transport comes first: the rendezvous
/// needs its address. Nothing arrives before `attach`, since nobody calls `progress`; a transport
/// that goes ahead by itself gets transport_error.
class deferred_sink final : public transport::sink, public transport::payload_pool {
public:
  void attach(transport::sink& to, transport::payload_pool& pool) noexcept {
    to_ = &to;
    pool_ = &pool;
  }

  void on_message(transport::incoming_message&& message) override {
    check_attached();
    to_->on_message(std::move(message));
  }
  void on_peer_lost(transport::rank_t peer, transport::peer_loss why) override {
    check_attached();
    to_->on_peer_lost(peer, std::move(why));
  }
  std::shared_ptr<std::byte> allocate(std::size_t size, memory_place place) override {
    check_attached();
    return pool_->allocate(size, place);
  }

private:
  void check_attached() const {
    if (!to_)
      throw transport_error("a transport may use its sink and its pool once `progress` is called");
  }

  transport::sink* to_ = nullptr;
  transport::payload_pool* pool_ = nullptr;
};

}  // namespace troupe
