// Messages and their notes, in both directions.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/lending/backend.hpp"
#include "troupe/transport/lending/lent_payloads.hpp"

namespace troupe::transport::lending {

namespace {

// Ends of loans wait for so many polls for a message to travel with.
constexpr unsigned polls_before_alone = 64;

constexpr auto nothing_borrowed = [](const std::byte*, std::size_t) {
  return std::optional<borrowed_place>();
};

bool has_to_tell(const peer& to) noexcept {
  return to.words.any() || (to.borrowed && to.borrowed->any_ended());
}

// What a thread has taken from the books to tell it alone must not be overtaken by a message of
// another thread: an answer would come before the end of the loans that it has ended. Rare, and as
// short as a small send.
void wait_for_notes(const peer& to) noexcept {
  while (to.telling.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

}  // namespace

unsigned backend::progress() {
  armed_.store(false, std::memory_order_relaxed);
  const auto events = inner_->progress();
  if (any_broken_) end_broken();
  if (waiting_.load(std::memory_order_relaxed) && ++polls_ >= polls_before_alone) tell_alone();
  return events;
}

bool backend::arm() {
  // Whoever ends a loan either sees the mark, and wakes this thread, or is seen below.
  armed_.store(true, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) && tell_alone()) return false;
  return inner_->arm();
}

// The hot path of a small message: a note without entries is 16 bytes behind its envelope, in the
// same frame.
bool backend::send(rank_t rank, std::uint64_t order, frame&& envelope,
                   std::vector<outgoing_payload>&& payloads) {
  const sending use(peers_.find(rank));
  auto* const p = use.now();
  const bool leases = p && p->near;
  auto bytes = envelope.size();
  for (const auto& payload : payloads) {
    bytes += payload.size;
    if (!leases && payload.place.where != memory_place::kind::host)
      throw transport_error("memory of a device cannot be leased to " + rank_name(rank) +
                            ": the connection has ended");
  }
  if (!p) return inner_->send(rank, order, std::move(envelope), std::move(payloads));
  for (const auto& payload : payloads) {
    if (p->same_host && !p->near && !options_.only_given && payload.size >= options_.lend_from)
      say_not_lent(*p, options_, not_lent::to_this_peer, payload);
  }
  const auto find_place = [&](const std::byte* data, std::size_t size) {
    return place_of(data, size, *p);
  };
  // What a note said that is not sent is told by another one.
  struct untold {
    backend& of;
    std::optional<note_writer> writer{};
    ~untold() {
      if (!writer || writer->is_sent()) return;
      writer.reset();
      of.something_to_tell();
    }
  } note{*this};
  auto& writer = note.writer;
  if (p->near && payloads.empty() && !has_to_tell(*p)) {
    append_note(envelope, {}, 0, false);
  } else if (p->near) {
    const auto count = payloads.size();
    if (count > max_payloads)
      throw invalid_argument(
          fmt::format("a message can have {} payloads, not {}", max_payloads, count));
    writer.emplace(*p, options_, find_place);
    if (count > 0) writer->lend(payloads);
    writer->add_ends();
    append_note(envelope, writer->entries(), static_cast<std::uint32_t>(count), false);
  }
  // After the books were looked at: whoever found them empty sees who has emptied them.
  if (p->near) wait_for_notes(*p);
  const bool more = inner_->send(rank, order, std::move(envelope), std::move(payloads));
  if (writer) writer->sent();
  p->messages_sent.fetch_add(1, std::memory_order_relaxed);
  p->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  return more;
}

void backend::on_message(incoming_message&& message) {
  auto* const p = find(message.from);
  if (!p) return to_.on_message(std::move(message));
  if (p->lost || p->broken) return;
  if (p->near) {
    try {
      if (!take_empty_note(message.envelope, message.payloads.size())) {
        take_note(message.envelope, note_);
        take(*p, message);
        if (note_.alone) return;
      }
    } catch (const std::exception& e) {  // what it is owed cannot be told any more
      p->broken = true;
      any_broken_ = true;
      p->problem = e.what();
      return;
    }
  }
  auto bytes = message.envelope.size();
  for (const auto& payload : message.payloads) bytes += payload.size;
  p->messages_received.fetch_add(1, std::memory_order_relaxed);
  p->bytes_received.fetch_add(bytes, std::memory_order_relaxed);
  to_.on_message(std::move(message));
}

// Does what the note says: puts payloads that did not travel among those that did.
void backend::take(peer& from, incoming_message& message) {
  std::vector<incoming_payload> whole;
  auto came = std::exchange(message.payloads, {});
  std::size_t next_came = 0;
  whole.reserve(note_.payloads);
  const auto take_until = [&](std::size_t index) {
    for (; whole.size() < index; ++next_came) {
      if (next_came >= came.size())
        throw decode_error("A message has fewer payloads than its note says.");
      whole.push_back(std::move(came[next_came]));
    }
  };
  const auto put = [&](const note_entry& entry, std::shared_ptr<std::byte> data) {
    take_until(entry.index);
    auto& payload = whole.emplace_back();
    payload.data = std::move(data);
    payload.size = entry.size;
    payload.read_only = entry.kind != entry_kind::hand && entry.kind != entry_kind::hand_back;
  };
  node_number owner{};
  std::shared_ptr<const mapped_region> region;  // of `owner`
  for (const auto& entry : note_.entries) {
    switch (entry.kind) {
      case entry_kind::lend:
        if (!from.borrowed)
          throw decode_error("A note lends memory that this node has not mapped.");
        put(entry, from.borrowed->borrow(entry.loan, entry.offset, entry.size));
        break;
      case entry_kind::give_back: {
        auto keep = from.lent->give_back(entry.loan, entry.offset, entry.size);
        put(entry, {std::move(keep), options_.memory->at(entry.offset)});
        break;
      }
      case entry_kind::hand:
        if (!from.borrowed)
          throw decode_error("A note hands memory over that this node has not mapped.");
        put(entry, from.borrowed->take_over(entry.loan, entry.offset, entry.size));
        break;
      case entry_kind::hand_back:
        // The arena's own block again: whoever keeps it may write it.
        put(entry, std::static_pointer_cast<std::byte>(std::const_pointer_cast<void>(
                       from.lent->hand_back(entry.loan, entry.offset, entry.size))));
        break;
      case entry_kind::lease:
        if (!from.borrowed)
          throw decode_error("A note leases memory, and none of that node can be.");
        put(entry, from.borrowed->lease(entry.loan));
        whole.back().place = lending::place_of(entry);
        break;
      case entry_kind::can_write: from.may_hand = server_ && !from.lost; break;
      case entry_kind::end:
        from.lent->end(entry.loan, entry.size);
        if (entry.index == unopened) opens_none(from);
        break;
      case entry_kind::can_read:
        if (server_) reads_here(from);
        break;
      case entry_kind::known: reader_is_known(from); break;
      case entry_kind::can_read_of: from.readable.add(node_of(entry)); break;
      case entry_kind::cannot_read_of: {
        auto answer = entry_of(entry_kind::passed_in_all, node_of(entry));
        answer.size = from.readable.remove(node_of(entry));
        from.words.add(answer);
        something_to_tell();
        break;
      }
      case entry_kind::passed_in_all: passed_in_all(from, node_of(entry), entry.size); break;
      case entry_kind::of_node:
        owner = node_of(entry);
        region = region_of(owner);
        break;
      case entry_kind::pass:
        if (!from.borrowed || !region)
          throw decode_error("A note passes on memory that this node has not mapped.");
        put(entry,
            from.borrowed->borrow_passed(entry.loan, owner, region, entry.offset, entry.size));
        break;
      case entry_kind::whose: asked(from, node_of(entry)); break;
      case entry_kind::nothing_of: orphans_.answered(node_of(entry), from.node); break;
    }
  }
  if (region && any_late_.load(std::memory_order_relaxed)) let_go_of_late_regions();
  take_until(note_.payloads);
  if (next_came != came.size())
    throw decode_error("A message has more payloads than its note says.");
  message.payloads = std::move(whole);
}

void backend::on_peer_lost(rank_t rank, peer_loss why) {
  if (auto* const p = find(rank)) {
    if (p->broken) return;  // `end_broken` says it
    part(*p, why.kind == loss_kind::ended);
  }
  to_.on_peer_lost(rank, std::move(why));
}

// What a peer has sent cannot be taken. Here, since a sink may not call its transport.
void backend::end_broken() {
  any_broken_ = false;
  std::vector<std::shared_ptr<peer>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& p : connections_)
      if (p->broken && !p->lost) all.push_back(p);
  }
  for (const auto& p : all) {
    inner_->close_peer(p->rank, true);
    if (part(*p, false))
      to_.on_peer_lost(p->rank, {loss_kind::broken, "it has sent malformed data: " + p->problem});
  }
}

// Tells a peer what no message has told it. False: there was nothing, or it cannot be told.
bool backend::tell(peer& to) {
  bool told = false;
  if (!to.near) return false;
  struct counted {
    std::atomic<unsigned>& count;
    explicit counted(std::atomic<unsigned>& c) : count(c) { count.fetch_add(1); }
    ~counted() { count.fetch_sub(1, std::memory_order_release); }
  } telling(to.telling);
  while (!to.lost && has_to_tell(to)) {
    try {
      const sending use(peers_.find(to.rank));
      if (use.now() != &to) break;
      note_writer writer(to, options_, nothing_borrowed);
      writer.add_ends();
      frame note(frame::small_capacity);
      append_note(note, writer.entries(), 0, true);
      inner_->send(to.rank, 0, std::move(note));
      writer.sent();
      told = true;
    } catch (const std::exception&) {
      break;  // it is lost, which the sink is told, or there is no memory: then with a message
    }
  }
  return told;
}

// Tells all peers. False: there was nothing.
bool backend::tell_alone() {
  polls_ = 0;
  bool told = false;
  // An exchange: what was written before whoever set it is seen below.
  waiting_.exchange(false);
  answer_the_asked();
  std::vector<std::shared_ptr<peer>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& p : connections_)
      if (!p->lost) all.push_back(p);
  }
  for (const auto& p : all) told = tell(*p) || told;
  return told;
}

}  // namespace troupe::transport::lending
