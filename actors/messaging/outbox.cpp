#include "troupe/actors/messaging/outbox.hpp"

#include <cstring>
#include <optional>

namespace troupe {

namespace {

// Encoders of this thread, one for each level of nesting: writing a value may itself send a
// message. A node of static storage sends when the main thread's are gone.
struct scratch {
  std::vector<std::unique_ptr<encoder>> levels;
  std::size_t used = 0;
  bool closed = false;

  ~scratch() { closed = true; }
};
thread_local scratch local;

std::size_t size_of(const sealed_envelope& sealed) noexcept {
  std::size_t size = sealed.bytes.size();
  for (const auto& payload : sealed.payloads) size += payload.size;
  return size;
}

}  // namespace

message_builder::message_builder(handle_translator* handles) {
  if (local.closed) {
    own_ = std::make_unique<encoder>(nullptr, nullptr);
    body_ = own_.get();
  } else {
    if (local.used == local.levels.size())
      local.levels.push_back(std::make_unique<encoder>(nullptr, nullptr));
    body_ = local.levels[local.used++].get();
  }
  body_->reset(&tensors_, handles);
}

message_builder::~message_builder() {
  if (own_) return;
  --local.used;
  // A rare large body shall not stay for ever.
  if (body_->bytes().capacity() > (std::size_t{1} << 20)) body_->take();
}

void outbox::send(peer& to, std::uint64_t order, envelope_header header, message_builder* text,
                  const fault* why, const send_wait& how) {
  const bool counted = counts_at_shutdown(header);
  header.job = self_.job;
  header.incarnation = self_.incarnation;
  // Before it looks whether the receiver lives: its next incarnation sees from the epoch that this
  // was not meant for it.
  header.epoch = epoch();
  if (counted && !to.live()) throw peer_lost(to.loss());
  header.sequence = to.sent.fetch_add(1, std::memory_order_relaxed) + 1;
  std::span<const std::byte> body;
  const auto may_lease = [&](const memory_place& here, const memory_place& there,
                             const std::string& problem) {
    return to.rank() != self_.rank && net_->leases(to.rank(), here, there, problem);
  };
  if (text) {
    body = text->body().bytes();
    header.uses_reply_route |= header.kind == envelope_kind::response;
    text->tensors().go_by(header.uses_reply_route ? to.devices.answers : to.devices.calls,
                          may_lease);
  }
  auto sealed = seal(header, body, text ? &text->tensors() : nullptr, why);
  const bool windowed =
      header.kind == envelope_kind::call || header.kind == envelope_kind::actor_message;
  const auto size = windowed ? size_of(sealed) : 0;
  if (windowed) flow_.take(to, size, how);
  // Before it goes: its arrival orders this before the receiver's count. Relaxed would do, here and
  // below.
  if (counted) to.counted_sent.fetch_add(1, std::memory_order_acq_rel);
  try {
    std::optional<engine::network_work> work;
    if (!sealed.payloads.empty()) work.emplace(engine_);
    if (to.rank() == self_.rank)
      send_to_self(std::move(sealed));
    else if (net_->send(to.rank(), order, std::move(sealed.bytes), std::move(sealed.payloads)))
      engine_.wake_network();
  } catch (...) {
    if (counted) to.counted_sent.fetch_sub(1, std::memory_order_acq_rel);
    if (windowed) flow_.put_back(to, size);
    throw;
  }
}

bool outbox::send_control(peer& to, control_channel channel, std::uint64_t order,
                          function_ref<void(encoder&)> write) {
  gate::pass pass(entrance_);
  if (!pass) return false;
  message_builder text(nullptr);
  write(text.body());
  envelope_header header;
  header.target = channel;
  send(to, order, header, &text);
  return true;
}

bool outbox::try_write_control(peer& to, control_channel channel,
                               function_ref<void(encoder&)> write) noexcept {
  // The next incarnation of a lost node has actors and requests of the same numbers.
  if (!to.live()) return false;
  try {
    return send_control(to, channel, 0, write);
  } catch (const std::exception&) {
    return false;
  }
}

bool outbox::would_lend(const peer& to, const void* data, std::size_t size,
                        std::size_t beside) const {
  return to.rank() != self_.rank &&
         net_->would_lend(to.rank(), static_cast<const std::byte*>(data), size, beside);
}

// A node talks to itself by value, like to any other.
void outbox::send_to_self(sealed_envelope&& sealed) {
  transport::incoming_message message;
  message.from = self_.rank;
  message.envelope = std::move(sealed.bytes);
  for (auto& payload : sealed.payloads) {
    if (payload.place.where != memory_place::kind::host)
      throw transport_error("a tensor on a GPU cannot be sent from a node to itself yet");
    auto copy = pool_->allocate(payload.size, payload.place);
    std::memcpy(copy.get(), payload.data, payload.size);
    message.payloads.push_back({std::move(copy), payload.size, payload.place});
  }
  engine_.deliver_locally(std::move(message));
}

void outbox::send_fault(peer& to, std::uint64_t order, std::uint64_t request, const fault& why,
                        bool read) noexcept {
  try {
    envelope_header header;
    header.kind = envelope_kind::failure;
    if (!read) header.request = unread;
    header.target = request;
    send(to, order, header, nullptr, &why);
  } catch (const std::exception&) {
    // The peer is gone, and with it the question.
  }
}

}  // namespace troupe
