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
void backend::note_acknowledgement(std::uint64_t expected) {
  auto& p = *reading_;
  if (expected <= p.confirmed) return;
  // A message is counted before it is written. The kernel, which has carried it there and the
  // acknowledgement back, orders the two.
  if (expected > p.next_sequence.load(std::memory_order_acquire))
    throw decode_error("it acknowledges what was never sent");
  p.confirmed = expected;
  if (std::exchange(p.confirming, true)) return;
  confirming_.push_back(&p);
}

void backend::count_arrival(std::size_t bytes) {
  auto& p = *reading_;
  ++p.owed_messages;
  p.owed_bytes += bytes;
  if (p.owed_messages >= most_owed_messages || p.owed_bytes >= most_owed_bytes) owing_much_ = true;
  if (p.owing) return;
  p.owing = true;
  owing_.push_back(&p);
}

// The payload that `size` bytes from `offset` on belong to.
arriving_payload& backend::arriving(const record_head& head, std::size_t offset, std::size_t size) {
  const std::uint64_t whole = head.order;
  if (offset > whole || size > whole - offset || head.count >= max_payloads)
    throw decode_error("a part of a payload that lies outside of it");
  reading_->parts.check(head.sequence);  // before memory is taken
  auto& one = reading_->arriving[{head.sequence, head.count}];
  if (!one.payload.data && whole > 0) {
    one.payload.size = whole;
    one.payload.place = place_of(head);
    one.payload.data = pool_.allocate(whole, one.payload.place);
  }
  if (one.payload.size != whole) throw decode_error("parts of a payload that differ on its size");
  return one;
}

// `size` bytes of a payload are there.
void backend::arrived(const record_head& head, std::size_t size) {
  auto& p = *reading_;
  const auto at = p.arriving.find({head.sequence, head.count});
  if (at == p.arriving.end()) throw decode_error("a part of a payload that is whole");
  at->second.here += size;
  if (at->second.here < at->second.payload.size) return;
  auto whole = std::move(at->second.payload);
  p.arriving.erase(at);
  count_arrival(whole.size);
  p.parts.payload(head.sequence, head.count, std::move(whole), ready_);
}

void backend::on_record(const record_head& head, std::span<const std::byte> body) {
  auto& p = *reading_;
  const bool bulk = from_->kind() == stream_kind::bulk;
  if (bulk) throw decode_error("a record that has no place on a stream for large payloads");
  switch (head.kind) {
    case record_kind::resume: return resumed(p, head.expected);
    case record_kind::message:
      note_acknowledgement(head.expected);
      count_arrival(body.size());
      p.parts.envelope(head.sequence, head.order, head.count, frame(body), ready_);
      return;
    case record_kind::payload: {
      if (head.order != body.size()) throw decode_error("a payload of another size");
      auto& one = arriving(head, 0, body.size());
      claim_whole(one);
      if (!body.empty()) std::memcpy(one.payload.data.get(), body.data(), body.size());
      return arrived(head, body.size());
    }
    case record_kind::acknowledgement: return note_acknowledgement(head.expected);
    case record_kind::leave: p.left = true; return;
    case record_kind::chunk: break;
  }
  throw decode_error("a record of unknown kind");
}

std::byte* backend::place_for(const record_head& head) {
  const bool bulk = from_->kind() == stream_kind::bulk;
  if (bulk && head.kind == record_kind::chunk) {
    auto& one = arriving(head, head.expected, head.attached);
    const bool last = head.attached == head.order - head.expected;
    if (head.expected % chunk_unit != 0 || (head.attached % chunk_unit != 0 && !last) ||
        head.attached > largest_chunk)
      throw decode_error("a chunk of another size");
    claim(one, head.expected, head.attached);
    return one.payload.data.get() + head.expected;
  }
  if (!bulk && head.kind == record_kind::payload && head.order == head.attached) {
    auto& one = arriving(head, 0, head.attached);
    claim_whole(one);
    return one.payload.data.get();
  }
  if (!bulk && head.kind == record_kind::message) {
    reading_->large_envelope = frame(std::size_t{head.attached});
    reading_->large_envelope.resize(head.attached);
    return reading_->large_envelope.data();
  }
  throw decode_error("bytes attached to a record that takes none");
}

void backend::on_attached(const record_head& head) {
  if (head.kind != record_kind::message) return arrived(head, head.attached);
  note_acknowledgement(head.expected);
  count_arrival(head.attached);
  reading_->parts.envelope(head.sequence, head.order, head.count,
                           std::exchange(reading_->large_envelope, frame()), ready_);
}

}  // namespace troupe::transport::tcp
