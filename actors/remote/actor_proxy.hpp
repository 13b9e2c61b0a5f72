#pragma once

#include <caf/actor_proxy.hpp>
#include <memory>

#include "troupe/actors/remote/remote_actors.hpp"

namespace troupe {

/// Stands here for an actor of another node: what it gets, it sends there, on the caller's thread.
class remote_actor final : public caf::actor_proxy {
public:
  remote_actor(caf::actor_config& config, std::shared_ptr<remote_actors> owner, peer& home);
  ~remote_actor() override;

  void enqueue(caf::mailbox_element_ptr message_builder, caf::execution_unit* host) override;
  void attach(caf::attachable_ptr what) override;
  bool add_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;
  const char* name() const override { return "troupe.remote_actor"; }

  peer& home() const noexcept { return home_; }
  remote_actors& owner() const noexcept { return *owner_; }
  bool ended() const noexcept { return getf(is_terminated_flag); }

private:
  friend class remote_actors;

  void watch_once();
  caf::error reason();

  std::shared_ptr<remote_actors> owner_;
  peer& home_;
  std::atomic<std::uint32_t> grants_{0};
  std::atomic<bool> watched_{false};
};

/// The sender of one request from another node, as its receiver sees it: takes the answer, once.
/// Dropped without one, it tells the asker. Everything else goes to the sender's `remote_actor`.
class reply_address final : public caf::actor_proxy {
public:
  /// `place`: of the request in an autograd context, to which the answer belongs as well.
  reply_address(caf::actor_config& config, std::shared_ptr<remote_actors> owner, peer& asker,
                std::uint64_t request, const detail::message_tag& place);
  ~reply_address() override;

  void enqueue(caf::mailbox_element_ptr message_builder, caf::execution_unit* host) override;
  void attach(caf::attachable_ptr what) override;
  bool add_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;
  const char* name() const override { return "troupe.reply_address"; }

  /// The node that asks, in the life in which it does, and its number for the request.
  const peer& asking_node() const noexcept { return from_; }
  std::uint64_t request() const noexcept { return request_; }

private:
  caf::strong_actor_ptr asker();

  std::shared_ptr<remote_actors> owner_;
  peer& from_;
  const std::uint64_t request_;
  const detail::message_tag place_;
  std::atomic<bool> answered_{false};
};

}  // namespace troupe
