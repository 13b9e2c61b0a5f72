#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "troupe/actors/membership/membership.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe {

/// Work for the membership's actor.
struct membership_work {
  std::function<void()> run;
};

/// Does its work one item at a time, in order of arrival.
using membership_handle = caf::typed_actor<caf::reacts_to<membership_work>>;

/// What a node does on behalf of its membership. On the membership's actor.
class membership_actions {
public:
  virtual ~membership_actions() = default;
  virtual void send_membership_message(transport::rank_t to,
                                       const membership_message& message) noexcept = 0;
  virtual void fence(const member& who, const fault& why) noexcept = 0;
  /// Throws transport_error.
  virtual void connect(const member& who) = 0;
  virtual void apply(const std::vector<membership_change>& changes,
                     const membership_view& view) noexcept = 0;
  virtual void job_ended(const fault& why) noexcept = 0;
};

/// The outcome of a request to join: called once, on a thread of the node, with the view in which
/// the joiner is a member, or with the reason why it is not.
using join_callback = std::function<void(const membership_view*, const fault&)>;

/// Runs a node's membership in an actor: messages of other nodes, losses and time come in as the
/// actor's messages, and are handled one after the other. Public functions are for any thread.
class membership_actor final : private membership_callbacks {
public:
  membership_actor(const membership_view& start, transport::rank_t self,
                   const membership_options& options, engine& driver, membership_actions& node);

  /// Makes the actor, which decides from now on.
  void open(caf::actor_system& system);

  /// Nothing more is decided, the decision under way excepted.
  void close();

  /// Drops requests that were never answered. Pre: no thread of the node is left.
  void abandon();

  /// Takes a message of that incarnation; ignored unless the node is connected to it.
  void receive(transport::rank_t from, std::uint64_t incarnation, membership_message&& message);
  void lost(transport::rank_t rank, const transport::peer_loss& why);
  void admit(join_request&& request, join_callback&& then);

  /// Calls `then` with nullptr once this node has left, or with the reason why it cannot.
  void leave(std::function<void(const fault*)> then);

  /// Has the membership look for hung nodes if that is due. Returns when it must be called next.
  clock::time_point run_timer(clock::time_point now);

private:
  void send(transport::rank_t to, const membership_message& message) override;
  void fence(const member& who, const fault& why) override;
  void connect(const member& who) override;
  void apply(const std::vector<membership_change>& changes, const membership_view& view) override;
  void welcome(const member& who, const membership_view& view) override;
  void refused(const member& who, const fault& why) override;
  void left() override;
  void ended(const fault& why) override;

  void post(std::function<void()> work);
  void tick();
  void answer(const member& who, const membership_view* view, const fault& why);

  engine& engine_;
  membership_actions& node_;
  membership membership_;  // the actor's
  membership_handle actor_;
  std::atomic<clock::rep> due_{never.time_since_epoch().count()};

  std::mutex mutex_;
  std::map<transport::rank_t, std::uint64_t> connected_;  // incarnations

  // The actor's.
  std::map<std::pair<transport::rank_t, std::uint64_t>, join_callback> join_callbacks_;
  struct {
    std::string name;
    join_callback then;
  } joiner_;  // whose request is being handled
  std::function<void(const fault*)> leaving_;
  std::vector<member> unreachable_;
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_work)
