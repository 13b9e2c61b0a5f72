#pragma once

#include <caf/actor_system.hpp>
#include <caf/attachable.hpp>
#include <functional>
#include <memory>
#include <unordered_map>

#include "troupe/actors/contexts/lost_gradients.hpp"
#include "troupe/actors/contexts/node_contexts.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/messaging/request_table.hpp"
#include "troupe/actors/remote/actor_proxy.hpp"
#include "troupe/actors/remote/export_table.hpp"
#include "troupe/actors/remote/outgoing_message.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe {

class window_credit;

namespace detail {
class reference_protocol;
}  // namespace detail

/// How the messages of a node treat windows and gradients.
struct messaging_rules {
  flow_window window{};
  when_full overload = when_full::wait;
  lost_gradient on_lost_gradient = lost_gradient::warn;
};

/// Actors across nodes: messages that leave through handles, messages that arrive for actors, and
/// how long actors and handles live.
///
/// A handle of an actor elsewhere is an `actor_proxy`, made when the handle arrives. It sends on
/// the caller's thread. The rules of life and death:
/// 1. An actor lives while a handle of it exists on any node (grants, see export_table).
/// 2. A node that passes on a handle of a third node's actor keeps its own until the receiver
///    is known to the owner (claim, unpin).
/// 3. A monitor or link is notified of the actor's end exactly once, also when the actor has
///    ended before, its node is lost, or no handle of it is left here.
/// 4. Every request through a handle is answered exactly once: by the actor, by its end, by
///    a handler that drops it, or by the loss of the node.
///
/// Rules 1 and 2 are those of Network Objects (Birrell, Nelson, Owicki, Wobber: "Network objects",
/// SOSP 1993), where the sender of a reference keeps its own until the owner has listed the
/// receiver, and of torch's RRefs ("Remote Reference Protocol" in PyTorch's design notes), where a
/// fork's parent lives until the owner has confirmed the fork.
class remote_actors final : public std::enable_shared_from_this<remote_actors>,
                            public proxy_owner,
                            public handle_owner,
                            private flow_control::sender {
public:
  remote_actors(const node_identity& self, std::shared_ptr<engine> driver,
                std::shared_ptr<peer_table> peers, std::shared_ptr<request_table> requests,
                const messaging_rules& rules);
  ~remote_actors();

  void attach(caf::actor_system& system);

  /// An actor message, response, failure or control message has arrived. Actors are enqueued with
  /// `unit` as their host. Throws decode_error when it makes no sense.
  void deliver(opened_envelope& message, peer& from, window_credit&& taken,
               caf::execution_unit* unit);

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

  /// Asks an actor of another node what `write` puts into the body; the answer goes to the sink of
  /// `pending`. Returns the request's id; 0: it has failed. Hot path.
  std::uint64_t request(const actor_proxy& target, function_ref<void(encoder&)> write,
                        pending_request pending) noexcept;

  /// Sends an actor of another node what `write` puts into the body. `wait`: waits for room in its
  /// window, and does not report whether it was sent; else throws overloaded_error and the like.
  /// Throws invalid_argument, too; see lost_gradients.
  void send_message(const actor_proxy& target, std::string_view message, bool urgent, bool wait,
                    function_ref<void(encoder&)> write);

  /// Adds a request, whose deadline is its limit from now on. Its id.
  std::uint64_t expect(pending_request&& pending);

  /// Abandons a call to `to`, and sends it a cancellation.
  void cancel(peer& to, std::uint64_t request) noexcept;

  /// For messages that are written here.
  detail::sending_node as_sender() noexcept { return {*this, out_, contexts_}; }

  /// Threads that use `out` or add a request pass here first.
  gate& entrance() noexcept { return out_.entrance(); }

  request_table& requests() noexcept { return *requests_; }
  export_table& exports() noexcept { return *exports_; }

  /// The node's references; set once, before the node is open. They live as long as handles and
  /// answers do, which may outlive the node.
  detail::reference_protocol& references() const noexcept override { return *references_; }
  void set_references(std::unique_ptr<detail::reference_protocol> references);

  /// The node's part in autograd contexts.
  detail::node_contexts& contexts() noexcept { return contexts_; }
  const detail::node_contexts& contexts() const noexcept { return contexts_; }
  detail::context_interceptor* records() const noexcept { return contexts_.records(); }
  detail::lost_gradients& lost() noexcept { return lost_; }
  outbox& out() noexcept { return out_; }
  const std::shared_ptr<flow_control>& flow() noexcept { return flow_; }

  /// Do senders wait for room in a window, unless they say otherwise?
  bool senders_wait() const noexcept { return senders_wait_; }
  const std::shared_ptr<engine>& driver() const noexcept override { return engine_; }
  peer_table& peers() noexcept { return peers_; }
  const std::string& own_name() const override { return contexts_.own_name(); }

  /// The node that `proxy` is on.
  static remote_actors& of(const actor_proxy& proxy) noexcept {
    return static_cast<remote_actors&>(proxy.owner());
  }

  /// Handles of remote actors that exist here.
  std::size_t proxies() const;

private:
  template <class Write>
  std::uint64_t post(const actor_proxy& target, pending_request&& pending, std::string_view message,
                     const Write& write) noexcept;

  // proxy_owner
  void forward(actor_proxy& target, caf::mailbox_element_ptr what) override;
  void watch(actor_proxy& target) override;
  void gone(actor_proxy& proxy) override;
  void reply(peer& to, std::uint64_t order, std::uint64_t request, const detail::message_tag& asked,
             const caf::message& answer) noexcept override;
  void reply_dropped(peer& to, std::uint64_t order, std::uint64_t request) noexcept override;
  caf::strong_actor_ptr proxy_of(peer& owner, caf::actor_id id, bool granted) override;

  void send_signal(transport::rank_t to, flow_control::signal what, std::uint64_t first,
                   std::uint64_t second) noexcept override;

  // handle_owner
  void write_handle(encoder& out, const caf::strong_actor_ptr& handle, peer& to,
                    std::vector<written_handle>& written) override;
  void take_back(const std::vector<written_handle>& written, peer& from) noexcept override;
  caf::strong_actor_ptr read_handle(decoder& in, peer& from) override;

  struct claim_report {
    const peer* owner;     // which reports it
    const peer* receiver;  // that has claimed
  };
  void unpin(std::uint64_t pin, const claim_report* why);
  caf::strong_actor_ptr ended_here(caf::actor_id id);

  void deliver_to_actor(opened_envelope& message, peer& from, window_credit&& taken,
                        caf::execution_unit* unit);
  void deliver_answer(opened_envelope& message, peer& from, caf::execution_unit* unit);
  void deliver_control(opened_envelope& message, peer& from, caf::execution_unit* unit);
  void answer(pending_request&& request, fault&& why, caf::execution_unit* unit);
  void unsent(peer& to, std::uint64_t order, const envelope_header& header, const fault& why);
  template <class... Ts>
  void send_control(peer& to, const Ts&... xs) noexcept;
  bool is_own(const caf::strong_actor_ptr& handle) const noexcept;

  const std::shared_ptr<engine> engine_;
  const std::shared_ptr<peer_table> table_;  // handles outlive their node
  peer_table& peers_;
  const std::shared_ptr<flow_control> flow_;
  const bool senders_wait_;
  detail::node_contexts contexts_;
  detail::lost_gradients lost_;
  outbox out_;
  caf::actor_system* system_ = nullptr;

  const std::shared_ptr<request_table> requests_;
  std::shared_ptr<export_table> exports_ = std::make_shared<export_table>();
  std::unique_ptr<detail::reference_protocol> references_;

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
  static key key_of(const actor_proxy& proxy) noexcept;
  // No other lock of Troupe is taken under it. What leaves the tables is dropped after it: the end
  // of a proxy calls `gone`, which locks it.
  mutable std::mutex mutex_;
  std::unordered_map<key, caf::weak_actor_ptr, key_hash> proxies_;
  std::unordered_map<key, caf::attachable_ptr, key_hash> orphans_;  // watch without a handle
  // Rule 2: a handle that was passed on, until its owner knows the receiver.
  struct pinned {
    caf::strong_actor_ptr handle;
    const peer* receiver;

    const peer& owner() const noexcept {
      return static_cast<const actor_proxy*>(handle->get())->home();
    }
  };
  std::unordered_map<std::uint64_t, pinned> pins_;
  std::uint64_t last_pin_ = 0;
};

}  // namespace troupe
