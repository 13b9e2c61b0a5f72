// What comes on streams. All of it is from a node that has the job's secret; it is checked all the
// same.
#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

memory_place place_of(const record_head& head) {
  if (head.place != static_cast<std::uint8_t>(memory_place::kind::host))
    throw decode_error("a payload for memory that the TCP transport does not reach");
  return {memory_place::kind::host, head.device};
}

void claim_whole(arriving_payload& one) {
  if (!one.claimed.empty()) throw decode_error("a payload comes twice");
  one.claimed = {true};
}

constexpr std::size_t units_of(std::size_t bytes) { return (bytes + chunk_unit - 1) / chunk_unit; }

// Each byte is written once: the memory is passed on when all are there.
void claim(arriving_payload& one, std::size_t offset, std::size_t size) {
  if (one.claimed.empty()) one.claimed.resize(units_of(one.payload.size));
  const auto first = offset / chunk_unit;
  for (auto unit = first; unit < first + units_of(size); ++unit) {
    if (unit >= one.claimed.size() || one.claimed[unit]) throw decode_error("a chunk comes twice");
    one.claimed[unit] = true;
  }
}

}  // namespace

// Whoever waits for what came with it goes on first: see take_acknowledgements.
void backend::note_acknowledgement(peer& p, std::uint64_t expected) {
  if (expected <= p.confirmed) return;
  // A message is counted before it is written. The kernel, which has carried it there and the
  // acknowledgement back, orders the two.
  if (expected > p.next_sequence.load(std::memory_order_acquire))
    throw decode_error("it acknowledges what was never sent");
  p.confirmed = expected;
  if (std::exchange(p.confirming, true)) return;
  confirming_.push_back(&p);
}

void backend::count_arrival(peer& p, std::size_t bytes) {
  ++p.owed_messages;
  p.owed_bytes += bytes;
  if (p.owed_messages >= most_owed_messages || p.owed_bytes >= most_owed_bytes) owing_much_ = true;
  if (p.owing) return;
  p.owing = true;
  owing_.push_back(&p);
}

// The payload that `size` bytes from `offset` on belong to.
arriving_payload& backend::arriving(peer& p, const record_head& head, std::size_t offset,
                                    std::size_t size) {
  const std::uint64_t whole = head.order;
  if (offset > whole || size > whole - offset || head.count >= max_payloads)
    throw decode_error("a part of a payload that lies outside of it");
  p.parts.check(head.sequence);  // before memory is taken
  auto& one = p.arriving[{head.sequence, head.count}];
  if (!one.payload.data && whole > 0) {
    one.payload.size = whole;
    one.payload.place = place_of(head);
    one.payload.data = pool_.allocate(whole, one.payload.place);
  }
  if (one.payload.size != whole) throw decode_error("parts of a payload that differ on its size");
  return one;
}

// `size` bytes of a payload are there.
void backend::arrived(peer& p, const record_head& head, std::size_t size) {
  const auto at = p.arriving.find({head.sequence, head.count});
  if (at == p.arriving.end()) throw decode_error("a part of a payload that is whole");
  at->second.here += size;
  if (at->second.here < at->second.payload.size) return;
  auto whole = std::move(at->second.payload);
  p.arriving.erase(at);
  count_arrival(p, whole.size);
  p.parts.payload(head.sequence, head.count, std::move(whole), ready_);
}

// The streams of payloads may be read by two threads, each of them with its own.
std::unique_lock<std::mutex> backend::record_taker::alone() {
  return beside_ ? std::unique_lock(to_.beside_mutex_) : std::unique_lock<std::mutex>();
}

void backend::record_taker::on_record(const record_head& head, std::span<const std::byte> body) {
  const auto lock = alone();
  to_.take_record(of_, kind_, head, body);
}

std::byte* backend::record_taker::place_for(const record_head& head) {
  const auto lock = alone();
  return to_.place_for(of_, kind_, head);
}

void backend::record_taker::on_attached(const record_head& head) {
  const auto lock = alone();
  to_.take_attached(of_, head);
}

void backend::take_record(peer& p, stream_kind kind, const record_head& head,
                          std::span<const std::byte> body) {
  if (kind == stream_kind::bulk)
    throw decode_error("a record that has no place on a stream for large payloads");
  switch (head.kind) {
    case record_kind::resume: return resumed(p, head.expected);
    case record_kind::message:
      note_acknowledgement(p, head.expected);
      count_arrival(p, body.size());
      p.parts.envelope(head.sequence, head.order, head.count, frame(body), ready_);
      return;
    case record_kind::payload: {
      if (head.order != body.size()) throw decode_error("a payload of another size");
      auto& one = arriving(p, head, 0, body.size());
      claim_whole(one);
      if (!body.empty()) std::memcpy(one.payload.data.get(), body.data(), body.size());
      return arrived(p, head, body.size());
    }
    case record_kind::acknowledgement: return note_acknowledgement(p, head.expected);
    case record_kind::leave: p.left = true; return;
    case record_kind::chunk: break;
  }
  throw decode_error("a record of unknown kind");
}

std::byte* backend::place_for(peer& p, stream_kind kind, const record_head& head) {
  const bool bulk = kind == stream_kind::bulk;
  if (bulk && head.kind == record_kind::chunk) {
    auto& one = arriving(p, head, head.expected, head.attached);
    const bool last = head.attached == head.order - head.expected;
    if (head.expected % chunk_unit != 0 || (head.attached % chunk_unit != 0 && !last) ||
        head.attached > largest_chunk)
      throw decode_error("a chunk of another size");
    claim(one, head.expected, head.attached);
    return one.payload.data.get() + head.expected;
  }
  if (!bulk && head.kind == record_kind::payload && head.order == head.attached) {
    auto& one = arriving(p, head, 0, head.attached);
    claim_whole(one);
    return one.payload.data.get();
  }
  if (!bulk && head.kind == record_kind::message) {
    p.large_envelope = frame(std::size_t{head.attached});
    p.large_envelope.resize(head.attached);
    return p.large_envelope.data();
  }
  throw decode_error("bytes attached to a record that takes none");
}

void backend::take_attached(peer& p, const record_head& head) {
  if (head.kind != record_kind::message) return arrived(p, head, head.attached);
  note_acknowledgement(p, head.expected);
  count_arrival(p, head.attached);
  p.parts.envelope(head.sequence, head.order, head.count, std::exchange(p.large_envelope, frame()),
                   ready_);
}

}  // namespace troupe::transport::tcp
