#pragma once

#include <exception>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/contexts/context_header.hpp"
#include "troupe/actors/remote/handle_scope.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"

namespace troupe::detail {

/// A call, request, message or answer of `from` that is being read: its body, the handles,
/// references and tensors in it, and its place in an autograd context, which stands first in the
/// body. One whose context has ended is read all the same, since handles may be in it, and refused
/// after that. For one thread; in no context neither an allocation nor a lock.
class incoming_message {
public:
  /// Throws decode_error.
  incoming_message(handle_owner& owner, const node_contexts& contexts, opened_envelope& message,
                   peer& from)
      : tensors_(message.tensors(from.devices.usable)),
        handles_(owner, from),
        body_(message.body(), tensors_, &handles_) {
    try {
      tag_ = receive_tag(contexts, message, body_, from);
    } catch (const decode_error&) {
      throw;
    } catch (const error&) {
      ended_ = std::current_exception();
    }
  }

  decoder& body() noexcept { return body_; }
  handle_scope& handles() noexcept { return handles_; }
  /// Of no context, if that has ended.
  const message_tag& tag() const noexcept { return tag_; }

  /// Of its tensors to devices, which may still run; nullptr: there are none. Before they are let
  /// go.
  const device_work* copies() const noexcept { return tensors_ ? tensors_->copies() : nullptr; }

  bool context_has_ended() const noexcept { return ended_ != nullptr; }
  /// Throws unknown_context if it has.
  void check_context() const {
    if (ended_) std::rethrow_exception(ended_);
  }

  /// All has been read. Throws decode_error, unknown_context.
  void finish() {
    body_.expect_end();
    check_context();
  }

private:
  tensor_reader* const tensors_;  // nullptr: none
  handle_scope handles_;
  decoder body_;
  message_tag tag_;
  std::exception_ptr ended_;
};

}  // namespace troupe::detail
