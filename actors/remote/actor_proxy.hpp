#pragma once

#include <atomic>
#include <caf/actor_proxy.hpp>
#include <memory>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/contexts/context_interceptor.hpp"
#include "troupe/actors/deadlock/requester.hpp"

namespace troupe {

class actor_proxy;

/// What proxies need of the node that they are on: `remote_actors`. They may outlive the node
/// itself.
class proxy_owner {
public:
  /// Sends `what` to the actor that `target` stands for.
  virtual void forward(actor_proxy& target, caf::mailbox_element_ptr what) = 0;
  /// Asks the actor's node to report the end of the actor.
  virtual void watch(actor_proxy& target) = 0;
  /// The proxy is being destroyed.
  virtual void gone(actor_proxy& proxy) = 0;

  /// Answers a request of an actor of `to`, whose id is `order`.
  virtual void reply(peer& to, std::uint64_t order, std::uint64_t request,
                     const detail::message_tag& asked, const caf::message& answer) noexcept = 0;
  /// The request was dropped without an answer.
  virtual void reply_dropped(peer& to, std::uint64_t order, std::uint64_t request) noexcept = 0;
  /// The proxy of the actor `id` of `owner`. `granted`: `owner` counts the handle already.
  virtual caf::strong_actor_ptr proxy_of(peer& owner, caf::actor_id id, bool granted) = 0;

protected:
  ~proxy_owner() = default;
};

/// Stands here for an actor of another node, and sends what it gets to that actor, on the caller's
/// thread.
class actor_proxy final : public caf::actor_proxy {
public:
  actor_proxy(caf::actor_config& config, std::shared_ptr<proxy_owner> owner, peer& home);
  ~actor_proxy() override;

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  void attach(caf::attachable_ptr what) override;
  bool add_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;
  const char* name() const override { return "troupe.remote_actor"; }

  peer& home() const noexcept { return home_; }
  proxy_owner& owner() const noexcept { return *owner_; }
  bool ended() const noexcept { return getf(is_terminated_flag); }

private:
  friend class remote_actors;

  void watch_once();
  caf::error reason();

  std::shared_ptr<proxy_owner> owner_;
  peer& home_;
  std::atomic<std::uint32_t> grants_{0};
  std::atomic<bool> watched_{false};
};

/// The sender of one request from another node, as its receiver sees it: takes the answer, once. If
/// it is dropped without one, it notifies the asker. Everything else goes to the sender's
/// `actor_proxy`.
class reply_address final : public caf::actor_proxy, public deadlock::requester {
public:
  /// `place`: of the request in an autograd context, to which the answer belongs as well.
  reply_address(caf::actor_config& config, std::shared_ptr<proxy_owner> owner, peer& asker,
                std::uint64_t request, const detail::message_tag& place);
  ~reply_address() override;

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  void attach(caf::attachable_ptr what) override;
  bool add_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;
  const char* name() const override { return "troupe.reply_address"; }

  detail::question question_at(const incarnation& here) const noexcept override {
    return {incarnation_of(from_), here, request_, 0};
  }

private:
  caf::strong_actor_ptr asker();

  std::shared_ptr<proxy_owner> owner_;
  peer& from_;
  const std::uint64_t request_;
  const detail::message_tag place_;
  std::atomic<bool> answered_{false};
};

}  // namespace troupe
