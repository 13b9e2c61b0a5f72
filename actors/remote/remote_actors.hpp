#pragma once

#include <caf/actor_system.hpp>
#include <caf/attachable.hpp>
#include <functional>
#include <memory>
#include <unordered_map>

#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/remote/export_table.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/actors/remote/lost_gradients.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/remote/context_interceptor.hpp"
#include "troupe/actors/messaging/request_table.hpp"
#include "troupe/actors/messaging/rref_id.hpp"
#include "troupe/actors/messaging/active_calls.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe {

class remote_actor;
class receipt;

namespace deadlock {
class search;
}

namespace detail {
class future_core;
class rref_table;
}  // namespace detail

/// Actors across nodes: what leaves through a handle, what arrives for an actor, and who lives how
/// long.
///
/// A handle of an actor elsewhere is a `remote_actor`, made when the handle arrives. It sends on
/// the caller's thread. The rules of life and death:
/// 1. An actor lives while a handle of it exists on any node (grants, see export_table).
/// 2. A node that passes on a handle of a third node's actor keeps its own until the receiver is
/// known
///    to the owner (claim, confirm).
/// 3. Who monitors or links to a remote actor hears of its end exactly once, also when it has ended
///    before, its node is lost, or no handle of it is left here.
/// 4. Every request through a handle is answered exactly once: by the actor, by its end, by a
/// handler
///    that drops it, or by the loss of the node.
class remote_actors final : public std::enable_shared_from_this<remote_actors>, private flow_control::sender {
public:
  remote_actors(const node_identity& self, std::shared_ptr<engine> driver,
           std::shared_ptr<peer_table> peers, const rpc_options& options);
  ~remote_actors();

  void attach(caf::actor_system& system);

  /// An actor message, response, failure or control message has arrived. Actors are enqueued with
  /// `unit` as their host. Throws decode_error when it makes no sense.
  void deliver(opened_envelope& message, peer& from, receipt&& taken, caf::execution_unit* unit);

  /// Fails what waits for `whom`, which is fenced. Returns what that was.
  lost_requests fail_requests(const peer& whom);

  /// Fails all that waits for other nodes.
  void fail_others(const fault& why);

  /// Ends the handles of a lost node's actors and takes back what it held.
  void evict(const peer& whom);

  /// Every handle bounces from now on. Waits for senders under way.
  void close();

  /// Fails the requests that still wait; afterwards nobody here holds anything of another node.
  void fail_pending(const fault& why);

  /// Asks an actor of another node what `write` puts into the body, for the sink of `pending` to
  /// hear. Returns the request's id; 0: it has failed. Hot path.
  std::uint64_t request(const remote_actor& target, function_ref<void(encoder&)> write,
                        pending_request pending) noexcept;

  /// Tells an actor of another node what `write` puts into the body. `wait`: for room in its
  /// window, and nobody hears whether it could be sent; else throws overloaded_error and the like.
  /// Throws invalid_argument, too; see lost_gradients.
  void send_message(const remote_actor& target, std::string_view message, bool urgent, bool wait,
                    function_ref<void(encoder&)> write);

  /// Tells the caller of `request` what was recorded of it here. What comes with the same `request`
  /// as its order comes after it.
  void send_profile(peer& to, std::uint64_t request,
                    const std::vector<profile_event>& events) noexcept;

  /// Adds a request, whose deadline is its limit from now on. Its id.
  std::uint64_t expect(pending_request&& pending);

  /// Nobody here waits for the answer to a call of `to` any more, which is told.
  void cancel(peer& to, std::uint64_t request) noexcept;

  /// Whoever uses `out` or adds a request passes here first.
  gate& entrance() noexcept { return gate_; }

  request_table& requests() noexcept { return requests_; }
  active_calls& served() noexcept { return served_; }
  export_table& exports() noexcept { return *exports_; }
  detail::rref_table& rrefs() noexcept { return *rrefs_; }

  /// nullptr: none has been provided.
  detail::context_interceptor* records() const noexcept { return records_.get(); }
  void set_interceptor(std::unique_ptr<detail::context_interceptor> records);
  detail::lost_gradients& lost() noexcept { return lost_; }
  outbox& out() noexcept { return out_; }
  const std::shared_ptr<flow_control>& flow() noexcept { return flow_; }
  deadlock::search& deadlocks() noexcept { return *deadlocks_; }

  /// Do senders wait for room in a window, unless they say otherwise?
  bool senders_wait() const noexcept { return senders_wait_; }
  const std::shared_ptr<engine>& driver() const noexcept { return engine_; }
  peer_table& peers() noexcept { return peers_; }
  const std::string& own_name() const { return peers_.find(out_.self().rank)->info.name; }

  /// Handles of remote actors that exist here.
  std::size_t proxies() const;

private:
  friend class remote_actor;
  friend class reply_address;
  friend class handle_scope;

  template <class Write>
  std::uint64_t post(const remote_actor& target, pending_request&& pending,
                     std::string_view message, const Write& write) noexcept;

  // For remote_actor.
  void forward(remote_actor& target, caf::mailbox_element_ptr message_builder);
  void watch(remote_actor& target);
  void gone(remote_actor& proxy);

  void send_note(transport::rank_t to, flow_control::note what, std::uint64_t first,
                 std::uint64_t second) noexcept override;

  void send_search_message(transport::rank_t to, const std::function<void(encoder&)>& write) noexcept;

  // For reply_address.
  void reply(peer& to, std::uint64_t order, std::uint64_t request, const detail::message_tag& asked,
             const caf::message& answer) noexcept;

  // For handle_scope.
  struct written_handle {
    caf::actor_id granted = 0;
    std::uint64_t pin = 0;
  };
  void write_handle(encoder& out, const caf::strong_actor_ptr& handle, peer& to,
                    std::vector<written_handle>& written);
  void take_back(const std::vector<written_handle>& written, peer& from) noexcept;
  void unpin(std::uint64_t pin);
  caf::strong_actor_ptr read_handle(decoder& in, peer& from);
  caf::strong_actor_ptr ended_here(caf::actor_id id);
  caf::strong_actor_ptr proxy_of(peer& owner, caf::actor_id id, bool granted);

  void deliver_to_actor(opened_envelope& message, peer& from, receipt&& taken,
                        caf::execution_unit* unit);
  void deliver_answer(opened_envelope& message, peer& from, caf::execution_unit* unit);
  void deliver_control(opened_envelope& message, peer& from, caf::execution_unit* unit);
  void answer(pending_request&& request, fault&& why, caf::execution_unit* unit);
  template <class... Ts>
  void send_control(peer& to, const Ts&... xs) noexcept;
  template <class... Ts>
  void send_control(peer& to, control_channel channel, const Ts&... xs) noexcept;
  bool is_own(const caf::strong_actor_ptr& handle) const noexcept;

  const std::shared_ptr<engine> engine_;
  const std::shared_ptr<peer_table> table_;  // handles outlive their node
  peer_table& peers_;
  const std::shared_ptr<flow_control> flow_;
  const bool senders_wait_;
  detail::lost_gradients lost_;
  outbox out_;
  caf::actor_system* system_ = nullptr;
  gate gate_;

  request_table requests_;
  active_calls served_;
  std::shared_ptr<export_table> exports_ = std::make_shared<export_table>();
  std::unique_ptr<detail::rref_table> rrefs_;
  std::unique_ptr<detail::context_interceptor> records_;
  const std::unique_ptr<deadlock::search> deadlocks_;

  struct key {
    transport::rank_t rank;
    std::uint64_t incarnation;
    caf::actor_id id;
    bool operator==(const key&) const = default;
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept {
      return k.id * 0x9e3779b97f4a7c15ull ^ k.rank ^ k.incarnation << 32;
    }
  };
  static key key_of(const remote_actor& proxy) noexcept;
  mutable std::mutex mutex_;
  std::unordered_map<key, caf::weak_actor_ptr, key_hash> proxies_;
  std::unordered_map<key, caf::attachable_ptr, key_hash> orphans_;  // watch without a handle
  std::unordered_map<std::uint64_t, std::pair<transport::rank_t, caf::strong_actor_ptr>> pins_;
  std::uint64_t last_pin_ = 0;
};

/// The handle_scope between this node and `peer` for the handles and references of one message. What
/// written ones give to `peer` is taken back, unless the message is `sent`.
class handle_scope final : public handle_translator {
public:
  using claims = std::vector<std::shared_ptr<detail::future_core>>;

  handle_scope(remote_actors& owner, peer& other) : owner_(owner), peer_(other) {}
  ~handle_scope() {
    if (holds_any()) take_back();
  }
  handle_scope(const handle_scope&) = delete;
  handle_scope& operator=(const handle_scope&) = delete;

  void write(encoder& out, const caf::strong_actor_ptr& handle) override {
    owner_.write_handle(out, handle, peer_, written_);
  }
  node_names nodes() const override { return {peer_.info.name, owner_.own_name()}; }
  caf::strong_actor_ptr read(decoder& in) override { return owner_.read_handle(in, peer_); }
  void write_reference(encoder& out, const std::shared_ptr<detail::rref_core>& one) override;
  std::shared_ptr<detail::rref_core> read_reference(decoder& in, std::uint64_t type,
                                                    std::string_view type_name) override;

  /// For a call that wants only the value of a reference: it is kept here until the call has been
  /// answered. Throws invalid_argument, encode_error, and what has become of the reference.
  rref_id lend(const std::shared_ptr<detail::rref_core>& one);

  /// The message is on its way.
  void sent() noexcept {
    written_.clear();
    references_.clear();
  }

  /// What has been read may be used when these are ready: references that their owners have yet to
  /// confirm.
  claims take_claims() noexcept { return std::move(claims_); }

  /// Has anything been written that has not been sent?
  bool holds_any() const noexcept { return !written_.empty() || !references_.empty(); }

  /// Those that have been written, until they are sent.
  const std::vector<detail::written_reference>& references() const noexcept { return references_; }

  /// The other node.
  peer& other() const noexcept { return peer_; }
  remote_actors& actors() const noexcept { return owner_; }

private:
  void take_back() noexcept;

  remote_actors& owner_;
  peer& peer_;
  std::vector<remote_actors::written_handle> written_;
  std::vector<detail::written_reference> references_;
  claims claims_;
};

}  // namespace troupe
