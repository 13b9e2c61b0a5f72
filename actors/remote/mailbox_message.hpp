#pragma once

#include <caf/fwd.hpp>
#include <caf/mailbox_element.hpp>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "troupe/actors/messaging/window_credit.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe {

/// What an actor may want to know of a message, beside what is in it.
struct message_origin {
  const peer* from = nullptr;          ///< null: this node
  clock::time_point deadline = never;  ///< when the requester gives up
};

/// A message in an actor's mailbox that belongs to an autograd context, or takes room in its
/// sender's window. The context is that of the thread while the actor handles the message. The room
/// is free once the actor turns to it.
class mailbox_message final : public caf::mailbox_element {
public:
  mailbox_message(caf::strong_actor_ptr&& from, caf::message_id id, forwarding_stack&& stages,
                  caf::message&& content, std::uint64_t context, window_credit&& taken = {},
                  const message_origin& origin = {});
  ~mailbox_message() override;

  /// CAF asks for it when the actor turns to the message.
  caf::type_erased_tuple& content() override;
  const caf::type_erased_tuple& content() const override { return content_.content(); }
  caf::message move_content_to_message() override;
  caf::message copy_content_to_message() const override { return content_; }

  const message_origin& origin() const noexcept { return origin_; }

private:
  caf::message content_;
  const std::uint64_t context_;
  window_credit taken_;
  const message_origin origin_;
};

/// A message of `context` (0: of none).
caf::mailbox_element_ptr make_mailbox_message(caf::strong_actor_ptr from, caf::message_id id,
                                              caf::message content, std::uint64_t context,
                                              window_credit&& taken = {},
                                              const message_origin& origin = {});

inline constexpr std::string_view unknown_message = "an unknown type";

/// What stands for a message in errors and the like: its first element's type. Static text.
std::string_view name_of(const caf::mailbox_element& message);

namespace detail {

class profiled_message;

/// The autograd contexts in which an actor has asked others by CAF's own means. An answer belongs
/// to the context of its question, whoever gives it and whenever it comes. Only for the thread that
/// runs the actor. What it has asked in none has no entry; others stay as long as CAF keeps the
/// handler of the answer.
class asked_contexts {
public:
  /// The first time counts: the actor that is asked may delegate the request back.
  void note(caf::message_id request, std::uint64_t context);
  std::uint64_t of(caf::message_id answer) const noexcept;
  void forget(caf::message_id answer) noexcept;

private:
  std::unordered_map<std::uint64_t, std::uint64_t> contexts_;
};

/// The actor that a thread runs, and how far it has come.
struct actor_place {
  caf::scheduled_actor* actor = nullptr;
  asked_contexts* asks = nullptr;            ///< nullptr: it does not remember what it asks
  const mailbox_message* entered = nullptr;  ///< in whose context it is
  bool thread_is_clean = false;              ///< nothing of the program's has run here since
};

/// The actor that the calling thread runs; nullptr: none.
caf::scheduled_actor* actor_at_work() noexcept;

/// The message in whose handler the calling thread is; nullptr: in none.
const caf::mailbox_element* message_at_work() noexcept;

/// While it lives, the calling thread, which is as clean as a new one, runs that actor.
class actor_turn {
public:
  explicit actor_turn(caf::scheduled_actor& actor) noexcept;
  ~actor_turn();
  actor_turn(const actor_turn&) = delete;
  actor_turn& operator=(const actor_turn&) = delete;

private:
  const actor_place before_;
};

/// While it lives, the actor that the thread runs is at one message. The next message begins
/// without what this one belongs to or has left behind. The first of a turn finds the thread clean.
/// An answer arrives in the context in which the actor has `asked`.
class message_scope {
public:
  message_scope(asked_contexts& asked, const caf::mailbox_element& what) noexcept;
  ~message_scope();
  message_scope(const message_scope&) = delete;
  message_scope& operator=(const message_scope&) = delete;

private:
  const actor_place before_;
  const bool collected_nothing_;               // for a profile of the thread
  std::unique_ptr<profiled_message> profile_;  // null: nobody profiles
};

/// Prepares what comes to an actor of this node: CAF's own requests are in the sender's context
/// from now on. nullptr: it is not for the actor, since this process was forked; the requester has
/// the error.
caf::mailbox_element_ptr in_senders_context(caf::mailbox_element_ptr what);

/// `sender` asks in the thread's context. If the thread runs that actor, the actor remembers it.
void note_asked(const caf::strong_actor_ptr& sender, caf::message_id request);

}  // namespace detail

}  // namespace troupe
