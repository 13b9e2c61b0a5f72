#pragma once

#include <utility>

#include "troupe/actors/contexts/node_contexts.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe {

class opened_envelope;

namespace detail {

/// What was recorded of a message in its context. Forgotten when this ends, unless it is kept.
class context_record {
public:
  context_record() = default;
  context_record(const node_contexts& contexts, const message_tag& where)
      : contexts_(&contexts), where_(where) {}
  context_record(context_record&& from) noexcept
      : contexts_(std::exchange(from.contexts_, nullptr)), where_(from.where_) {}
  context_record& operator=(context_record&& from) noexcept {
    std::swap(contexts_, from.contexts_);
    std::swap(where_, from.where_);
    return *this;
  }
  ~context_record();

  explicit operator bool() const noexcept { return contexts_; }
  void keep() noexcept { contexts_ = nullptr; }

private:
  const node_contexts* contexts_ = nullptr;  // null: nothing was
  message_tag where_;
};

/// A call, request or answer that is being written, in its context if it has one: `text` gets the
/// place in it first, then the message's own content. What is recorded is forgotten unless it is
/// `sent`. Outside of a context it costs a comparison.
class context_header {
public:
  /// `of_tensors`: tensors are recorded too, unless the thread's grad mode is off.
  context_header(const node_contexts& contexts, std::uint64_t context, peer& to,
                 message_builder& text, bool of_tensors = true)
      : contexts_(contexts), to_(to), text_(text) {
    if (context != 0) begin(context, of_tensors, false);
  }
  /// For the answer to `asked`: tensors are recorded if those of the question were, or could have
  /// been, whatever the grad mode of the thread that answers.
  context_header(const node_contexts& contexts, const message_tag& asked, peer& to,
                 message_builder& text)
      : contexts_(contexts), to_(to), text_(text) {
    if (asked.context != 0) begin(asked.context, asked.number != 0, true);
  }
  context_header(const context_header&) = delete;
  context_header& operator=(const context_header&) = delete;

  /// Does the message belong to a context?
  explicit operator bool() const noexcept { return where_.context != 0; }

  /// All has been written. Throws unknown_context.
  void finish(envelope_header& header) {
    if (where_.context != 0) record(header);
  }
  void sent() noexcept { record_.keep(); }

  bool has_record() const noexcept { return static_cast<bool>(record_); }
  /// Who has it says whether it is sent.
  context_record take_record() noexcept { return std::move(record_); }

private:
  void begin(std::uint64_t context, bool of_tensors, bool in_any_mode);
  void record(envelope_header& header);

  const node_contexts& contexts_;
  peer& to_;
  message_builder& text_;
  message_tag where_;
  context_record record_;
};

/// Takes the place in its context off a message that has come: empty if it has none. Throws
/// unknown_context, decode_error.
message_tag receive_tag(const node_contexts& contexts, opened_envelope& message, decoder& in,
                        peer& from);

/// Reads past that place. Throws decode_error.
void skip_tag(const opened_envelope& message, decoder& in);

}  // namespace detail

}  // namespace troupe
