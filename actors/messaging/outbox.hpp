#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/messaging/flow_control.hpp"
#include "troupe/actors/messaging/late_sends.hpp"
#include "troupe/actors/messaging/node_identity.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe {

/// The `request` in a failure's header if the callee has not taken what the call's arguments hold.
inline constexpr std::uint64_t unread = 1;

/// Must such a message have arrived before a graceful shutdown may end? Those of the program, and
/// what nodes say about references, which ends the references inside of values that go.
inline bool counts_at_shutdown(const envelope_header& header) noexcept {
  return header.kind != envelope_kind::control || header.target == rref_channel;
}

/// What a message gives away beside its bytes: handles, references, its place in an autograd
/// context. Taken back when this ends, unless the message was `sent`.
class message_claims {
public:
  virtual ~message_claims() = default;
  virtual void sent() noexcept = 0;
};

/// Who holds them while a message is written.
class claims_holder {
public:
  /// They go with the message, which leaves later.
  virtual std::unique_ptr<message_claims> take_claims() = 0;

protected:
  ~claims_holder() = default;
};

/// Where bodies are written before they are sent: the thread's own buffer, so that a small message
/// allocates nothing. Nests.
class message_builder {
public:
  explicit message_builder(handle_translator* handles);
  ~message_builder();
  message_builder(const message_builder&) = delete;
  message_builder& operator=(const message_builder&) = delete;

  encoder& body() noexcept { return *body_; }
  tensor_writer& tensors() noexcept { return tensors_; }

private:
  tensor_writer tensors_;
  encoder* body_;
  std::unique_ptr<encoder> own_;  // nullptr: the thread's
};

/// Puts envelopes around what is to be sent and hands them to the network, or to the node itself.
/// Thread-safe. Hot path: for a small message neither an allocation nor a lock beyond the
/// transport's.
class outbox {
public:
  /// `unsent` hears of a message whose tensors could not be copied out of a device after `send` had
  /// returned. On a thread of the outbox: it must not block.
  using unsent_report = std::function<void(peer& to, std::uint64_t order,
                                           const envelope_header& header, const fault& why)>;

  outbox(node_identity self, engine& driver, flow_control& flow, unsent_report unsent)
      : self_(self), engine_(driver), flow_(flow), unsent_(std::move(unsent)) {}

  void attach(transport::transport& net, transport::payload_pool& pool) noexcept {
    net_ = &net;
    pool_ = &pool;
  }

  /// Sends `text` (nullptr: no body). The header's job, incarnation, epoch and sequence are filled
  /// in. Messages of one non-zero `order` arrive in order. A call or a message for an actor waits
  /// for room in the receiver's window, as `how` says. Tensors go by the device maps between the
  /// two; if a device has yet to compute them, the message leaves later, and so do
  /// those of its order that are sent meanwhile. Throws peer_lost, encode_error, transport_error,
  /// and what `flow_control::take` throws.
  /// `holder` is asked for what goes with a message that leaves later.
  void send(peer& to, std::uint64_t order, envelope_header header, message_builder* text,
            const fault* why = nullptr, const send_wait& how = {}, claims_holder* holder = nullptr);

  /// Sends a message of the runtime, whose body `write` writes. Those of one non-zero `order`
  /// arrive in order. False: nothing was sent, since this node has ended. Throws peer_lost,
  /// encode_error, transport_error.
  bool send_control(peer& to, control_channel channel, std::uint64_t order,
                    function_ref<void(encoder&)> write);

  /// The same with a body of `xs`, to a peer that lives. Errors are dropped: what the message was
  /// about is settled when the peer is lost.
  template <class... Ts>
  bool try_send_control(peer& to, control_channel channel, const Ts&... xs) noexcept {
    return try_write_control(to, channel, [&](encoder& out) { (out.put(xs), ...); });
  }

  bool try_write_control(peer& to, control_channel channel,
                         function_ref<void(encoder&)> write) noexcept;

  /// Sends the requester a failure; `read`: the arguments have been read. Never throws: a lost
  /// peer needs no answer.
  void send_fault(peer& to, std::uint64_t order, std::uint64_t request, const fault& why,
                  bool read = true) noexcept;

  /// Would these bytes, all of a tensor's storage, be lent to `to` in a message that is sent now,
  /// beside so many others? A guess. For callers that the entrance has let in.
  bool would_lend(const peer& to, const void* data, std::size_t size, std::size_t beside) const;

  /// Do messages wait for devices?
  bool waits_for_devices() const noexcept { return late_.any(); }

  const node_identity& self() const noexcept { return self_; }

  /// Threads that send, or that add a request which waits for an answer, pass here first. Closed as
  /// the node ends.
  gate& entrance() noexcept { return entrance_; }

  /// The epoch of the membership that this node has applied.
  // Release and acquire: a thread that reads an epoch sees that the members which left by it are
  // fenced (`send` looks at that next).
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  void set_epoch(std::uint32_t epoch) noexcept { epoch_.store(epoch, std::memory_order_release); }

private:
  class late_message;
  struct sent_message;

  void pass_on(sent_message& one);
  void pass_on_later(sent_message&& one, const envelope_header& header,
                     std::unique_ptr<pending_bytes> pending, claims_holder* holder);
  bool comes_within(std::chrono::microseconds limit, const sent_message& one,
                    pending_bytes& pending);
  void not_sent(const sent_message& one) noexcept;
  void send_to_self(sealed_envelope&& sealed);

  const node_identity self_;
  engine& engine_;
  flow_control& flow_;
  gate entrance_;
  std::atomic<std::uint32_t> epoch_{0};
  transport::transport* net_ = nullptr;
  transport::payload_pool* pool_ = nullptr;
  const unsent_report unsent_;
  late_sends late_;  // its thread ends first
};

}  // namespace troupe
