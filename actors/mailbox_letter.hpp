#pragma once

#include <caf/mailbox_element.hpp>

#include "actors/receipt.hpp"

namespace troupe {

/// A message in an actor's mailbox that belongs to an autograd context, which is the thread's when
/// the actor turns to it, and until it has done with it; or that has room in its sender's window
/// until the actor turns to it.
class mailbox_letter final : public caf::mailbox_element {
public:
  mailbox_letter(caf::strong_actor_ptr&& from, caf::message_id id, forwarding_stack&& stages,
                 caf::message&& content, std::uint64_t context, receipt&& taken = {});
  ~mailbox_letter() override;

  /// CAF asks for it when the actor turns to the message.
  caf::type_erased_tuple& content() override;
  const caf::type_erased_tuple& content() const override { return content_.content(); }
  caf::message move_content_to_message() override;
  caf::message copy_content_to_message() const override { return content_; }

private:
  caf::message content_;
  const std::uint64_t context_;
  receipt taken_;
};

/// A message of `context` (0: of none).
caf::mailbox_element_ptr make_letter(caf::strong_actor_ptr from, caf::message_id id,
                                     caf::message content, std::uint64_t context,
                                     receipt&& taken = {});

namespace detail {

/// While it lives, an actor is at one message: whatever that belongs to, or has left behind, the
/// next one begins without.
class message_scope {
public:
  message_scope() noexcept;
  ~message_scope();
  message_scope(const message_scope&) = delete;
  message_scope& operator=(const message_scope&) = delete;

private:
  const mailbox_letter* const before_;
};

/// CAF's own requests and answers to an actor of this node: in the sender's context.
caf::mailbox_element_ptr in_senders_context(caf::mailbox_element_ptr what);

/// The actor has nothing more to do on this thread.
void leave_letter() noexcept;

}  // namespace detail

}  // namespace troupe
