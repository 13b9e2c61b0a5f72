#pragma once

#include "troupe/actors/contexts/context_header.hpp"
#include "troupe/actors/remote/handle_scope.hpp"

namespace troupe::detail {

/// The node that sends a message.
struct sending_node {
  handle_owner& handles;
  outbox& out;
  const node_contexts& contexts;
};

/// A call, request, message or answer that is being written for `to`: its body, the handles,
/// references and tensors in it, and its place in an autograd context, which stands first in the
/// body. Unless it is sent, what the handles and references in it have given to `to` is taken back,
/// and what was recorded of it is forgotten. For one thread; for a small message in no context
/// neither an allocation nor a lock.
class outgoing_message final : public claims_holder {
public:
  /// `context`: 0: of none. `of_tensors`: tensors are recorded too, unless the thread's grad mode
  /// is off. Throws unknown_context.
  outgoing_message(const sending_node& from, peer& to, std::uint64_t context,
                   bool of_tensors = true)
      : out_(from.out),
        handles_(from.handles, to),
        text_(&handles_),
        context_(from.contexts, context, to, text_, of_tensors) {}

  /// The answer to what was `asked`: tensors are recorded if those of the question were, or could
  /// have been, whatever the thread does that brings it.
  outgoing_message(const sending_node& from, peer& to, const message_tag& asked)
      : out_(from.out),
        handles_(from.handles, to),
        text_(&handles_),
        context_(from.contexts, asked, to, text_) {}

  encoder& body() noexcept { return text_.body(); }
  const tensor_writer& tensors() noexcept { return text_.tensors(); }
  handle_scope& handles() noexcept { return handles_; }
  bool in_context() const noexcept { return static_cast<bool>(context_); }

  /// All has been written: records it in its context. Throws unknown_context.
  void finish(envelope_header& header) { context_.finish(header); }

  /// After `finish`. Throws like outbox::send.
  void send(std::uint64_t order, const envelope_header& header, const send_wait& how = {}) {
    out_.send(handles_.other(), order, header, &text_, nullptr, how, this);
    context_.sent();
    handles_.sent();
  }

private:
  struct claims final : message_claims {
    claims(handle_scope& handles, context_header& context)
        : given(handles.owner(), handles.other()), record(context.take_record()) {
      handles.give_to(given);
    }
    void sent() noexcept override {
      record.keep();
      given.sent();
    }
    handle_scope given;
    context_record record;
  };
  std::unique_ptr<message_claims> take_claims() override {
    if (!handles_.holds_any() && !context_.has_record()) return nullptr;
    return std::make_unique<claims>(handles_, context_);
  }

  outbox& out_;
  handle_scope handles_;
  message_builder text_;
  context_header context_;
};

}  // namespace troupe::detail
