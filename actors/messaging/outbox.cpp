#include "troupe/actors/messaging/outbox.hpp"

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

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

// One on its way to the network.
struct outbox::sent_message {
  peer& to;
  std::uint64_t order;
  sealed_envelope sealed;
  bool counted;   // at a shutdown
  bool windowed;  // has taken room for `size` bytes
  std::size_t size;
};

class outbox::late_message final : public late_sends::message {
public:
  late_message(outbox& owner, sent_message&& one, const envelope_header& header,
               std::unique_ptr<pending_bytes> bytes, claims_holder* holder)
      : message({&one.to, one.order}, std::move(bytes)),
        owner_(owner),
        inside_(owner.entrance_),
        one_(std::move(one)),
        header_(header),
        claims_(holder ? holder->take_claims() : nullptr) {}

  void send() noexcept override {
    try {
      owner_.pass_on(one_);
      if (claims_) claims_->sent();
    } catch (const error& e) {
      // Those that wait for a lost peer have heard of it.
      if (e.code() != errc::peer_lost) report(e.fault());
    } catch (...) {
      report(describe(std::current_exception(), {}, {}));
    }
  }

  void fail(const fault& why) noexcept override {
    owner_.not_sent(one_);
    report(why);
  }

private:
  void report(const fault& why) noexcept {
    claims_.reset();
    owner_.unsent_(one_.to, one_.order, header_, why);
  }

  outbox& owner_;
  const gate::pass inside_;  // the node waits for it before it ends
  sent_message one_;
  const envelope_header header_;
  std::unique_ptr<message_claims> claims_;
};

void outbox::send(peer& to, std::uint64_t order, envelope_header header, message_builder* text,
                  const fault* why, const send_wait& how, claims_holder* holder) {
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
  std::unique_ptr<pending_bytes> pending;
  auto sealed = seal(header, body, text ? &text->tensors() : nullptr, why,
                     engine_.simulated() ? nullptr : &pending);
  const bool windowed =
      header.kind == envelope_kind::call || header.kind == envelope_kind::actor_message;
  const auto size = windowed ? size_of(sealed) : 0;
  if (windowed) flow_.take(to, size, how);
  // Before it goes: its arrival orders this before the receiver's count. Relaxed would do, here and
  // below.
  if (counted) to.counted_sent.fetch_add(1, std::memory_order_acq_rel);
  sent_message one{to, order, std::move(sealed), counted, windowed, size};
  // A short copy is not worth the way through another thread.
  if (pending && comes_within(std::chrono::microseconds(50), one, *pending)) pending.reset();
  if (!pending && !late_.any_in({&to, order})) return pass_on(one);
  pass_on_later(std::move(one), header, std::move(pending), holder);
}

void outbox::pass_on(sent_message& one) {
  try {
    std::optional<engine::network_work> work;
    if (!one.sealed.payloads.empty()) work.emplace(engine_);
    if (one.to.rank() == self_.rank)
      send_to_self(std::move(one.sealed));
    else if (net_->send(one.to.rank(), one.order, std::move(one.sealed.bytes),
                        std::move(one.sealed.payloads)))
      engine_.wake_network();
  } catch (...) {
    not_sent(one);
    throw;
  }
}

void outbox::not_sent(const sent_message& one) noexcept {
  if (one.counted) one.to.counted_sent.fetch_sub(1, std::memory_order_acq_rel);
  if (one.windowed) flow_.put_back(one.to, one.size);
}

bool outbox::comes_within(std::chrono::microseconds limit, const sent_message& one,
                          pending_bytes& pending) {
  try {
    const auto until = clock::now() + limit;
    do
      if (pending.there()) return true;
    while (clock::now() < until);
    return false;
  } catch (...) {
    not_sent(one);
    throw;
  }
}

void outbox::pass_on_later(sent_message&& one, const envelope_header& header,
                           std::unique_ptr<pending_bytes> pending, claims_holder* holder) {
  // The program may write to its tensors as soon as this returns. Those of a message with `pending`
  // are settled.
  if (!pending)
    for (auto& payload : one.sealed.payloads)
      if (!payload.settle_for_later()) {
        late_.wait_for({&one.to, one.order});
        return pass_on(one);
      }
  if (!late_.start()) {  // so none waits
    while (pending && !comes_within(std::chrono::microseconds(0), one, *pending))
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return pass_on(one);
  }
  try {
    late_.add(
        std::make_unique<late_message>(*this, std::move(one), header, std::move(pending), holder));
  } catch (...) {
    not_sent(one);
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
