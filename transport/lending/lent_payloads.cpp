#include "troupe/transport/lending/lent_payloads.hpp"

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/tensor/device_route.hpp"

namespace troupe::transport::lending {

namespace {

constexpr std::size_t ends_in_a_message = 64;
constexpr std::size_t words_in_a_message = 64;
// Beside payloads, one of which may take two entries.
constexpr std::size_t others_in_a_message = ends_in_a_message + words_in_a_message + 1;
static_assert(others_in_a_message < most_entries);

// The memory of the last note of this thread. Taken and put back, since what a note lets go may
// run code that sends.
thread_local std::vector<note_entry> spare_entries;

}  // namespace

namespace {

std::string reason_of(not_lent why, const peer& to) {
  switch (why) {
    case not_lent::to_this_peer: return to.why_not;
    case not_lent::not_all_of_its_storage:
      return "it is a part of its storage, of which the next write would copy all";
    case not_lent::elsewhere:
      return "its memory is not this process's arena: it was made before the first node, by "
             "at::from_blob, or by another node";
    default:
      return fmt::format("{} has {} bytes of this node's memory, as many as one node may",
                         rank_name(to.rank), to.lent->bytes());
  }
}

}  // namespace

void say_not_lent(peer& to, const lending_options& options, not_lent why,
                  const outgoing_payload& payload) {
  // Bodies of messages are payloads too, when they are large; tensors can be frozen.
  if (!payload.freeze || payload.copied || payload.place.where != memory_place::kind::host) return;
  const auto bit = static_cast<unsigned>(why);
  const bool said = (to.said.load(std::memory_order_relaxed) & bit) != 0;
  if (said && !options.strict) return;
  const auto text = fmt::format("a tensor of {} bytes for {} is not lent where it lies: {}",
                                payload.size, rank_name(to.rank), reason_of(why, to));
  if (options.strict)
    throw transport_error(text + ". rpc_options::lend_strictly refuses to copy it");
  if ((to.said.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const auto level = why == not_lent::past_limit ? spdlog::level::warn : spdlog::level::info;
  log().log(level, "rank {}: {}; such tensors are copied", options.rank, text);
}

note_writer::note_writer(peer& to, const lending_options& options, find_borrowed find)
    : to_(to), options_(options), find_(find), entries_(std::exchange(spare_entries, {})) {
  entries_.clear();
}

note_writer::~note_writer() {
  if (!sent_) take_back();
  spare_entries = std::move(entries_);
}

// The peer has heard of nothing.
void note_writer::take_back() noexcept {
  node_number owner{};
  for (const auto& entry : entries_) {
    switch (entry.kind) {
      case entry_kind::of_node: owner = node_of(entry); break;
      case entry_kind::pass: correct(owner); [[fallthrough]];
      case entry_kind::hand:
      case entry_kind::lease:
      case entry_kind::lend: to_.lent->cancel(entry.loan); break;
      case entry_kind::can_write:
      case entry_kind::can_read:
      case entry_kind::known:
      case entry_kind::can_read_of:
      case entry_kind::whose:
      case entry_kind::nothing_of:
      case entry_kind::cannot_read_of:
      case entry_kind::passed_in_all: to_.words.add(entry); break;
      case entry_kind::give_back:
      case entry_kind::hand_back:
      case entry_kind::end: break;
    }
  }
  if (to_.borrowed) to_.borrowed->take_back(entries_);
}

void note_writer::lend(std::vector<outgoing_payload>& payloads) {
  std::size_t stay = 0;
  leases_to_come_ = static_cast<std::size_t>(std::ranges::count_if(
      payloads, [](const auto& p) { return p.place.where != memory_place::kind::host; }));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    const bool on_device = payloads[i].place.where != memory_place::kind::host;
    if (on_device) {
      --leases_to_come_;
      lease(payloads[i], index);
    }
    if (on_device || describe(payloads[i], index)) {
      payloads[i].keep.reset();
    } else {
      settle(payloads[i]);
      if (stay != i) payloads[stay] = std::move(payloads[i]);
      ++stay;
    }
  }
  payloads.resize(stay);
}

// Whoever made the payload has asked whether it can be leased; the connection may have ended since.
void note_writer::lease(outgoing_payload& payload, std::uint32_t index) {
  const auto refuse = [&](const char* why) {
    return fmt::format("memory of {} cannot be leased to {}: {}", to_string(payload.place),
                       rank_name(to_.rank), why);
  };
  // `describe` leaves room, but may have taken one entry more.
  if (entries_.size() > most_entries - others_in_a_message)
    throw transport_error(refuse("the message has too many tensors"));
  const bool mapped = to_.may_lend;  // first: `part` clears it once the peer is lost
  if (!mapped && !to_.lost) throw transport_error(refuse("it has not mapped this node's memory"));
  entries_.reserve(entries_.size() + 1);
  const auto loan = to_.lent->lend(std::move(payload.keep), 0, 0, loan_book::way::leased);
  if (loan == 0) throw peer_lost(refuse("it is lost"));
  entries_.push_back({entry_kind::lease, index, loan, word_of(payload.place), payload.size});
}

bool note_writer::describe(outgoing_payload& payload, std::uint32_t index) {
  if (payload.size < options_.lend_from || payload.place.where != memory_place::kind::host ||
      entries_.size() + leases_to_come_ >= most_entries - others_in_a_message)
    return false;
  if (payload.take && is_aligned(payload.data) && hand_over(payload, index)) return true;
  if (to_.borrowed && is_aligned(payload.data)) {
    if (const auto at = to_.borrowed->give_back(payload.data, payload.size)) {
      entries_.push_back({entry_kind::give_back, index, at->loan, at->offset, payload.size});
      return true;
    }
  }
  if (options_.only_given) return false;
  if (!to_.may_lend.load(std::memory_order_relaxed)) {
    // Without a reason it has yet to map this node's memory, soon after the start.
    if (!to_.why_not.empty()) say_not_lent(to_, options_, not_lent::to_this_peer, payload);
    return false;
  }
  const bool in_arena = options_.memory->owns(payload.data);
  if (payload.freeze && in_arena && is_aligned(payload.data))
    if (auto keep = payload.freeze(payload)) {
      if (lend_bytes(std::move(keep), payload.data, payload.size, index, entry_kind::lend))
        return true;
      if (!to_.lost) say_not_lent(to_, options_, not_lent::past_limit, payload);
      return false;
    }
  if (!in_arena && pass_on(payload, index)) return true;
  say_not_lent(to_, options_, in_arena ? not_lent::not_all_of_its_storage : not_lent::elsewhere,
               payload);
  if (payload.size < options_.copy_from) return false;
  auto copy = copy_into_arena(payload);
  if (!copy) return false;
  const auto* const bytes = copy.get();
  const bool hands = to_.may_hand.load(std::memory_order_relaxed);
  return lend_bytes(std::move(copy), bytes, payload.size, index,
                    hands ? entry_kind::hand : entry_kind::lend);
}

// What nobody here uses any more: the peer gets all rights to it.
bool note_writer::hand_over(outgoing_payload& payload, std::uint32_t index) {
  entries_.reserve(entries_.size() + 1);  // once it is taken nothing may throw
  if (to_.borrowed) {
    if (const auto at = to_.borrowed->hand_back(payload.data, payload.size)) {
      const note_entry back{entry_kind::hand_back, index, at->loan, at->offset, payload.size};
      if (auto memory = payload.take(payload)) {
        payload.keep = std::move(memory);
        entries_.push_back(back);
        return true;
      }
      to_.borrowed->take_back({&back, 1});  // a third node reads it
      return false;
    }
  }
  if (!to_.may_hand.load(std::memory_order_relaxed) || !options_.memory->owns(payload.data) ||
      !to_.lent->has_room_for(payload.size))
    return false;
  auto memory = payload.take(payload);
  if (!memory) return false;
  payload.keep = memory;  // the tensor has it no longer
  payload.freeze = nullptr;
  payload.take = nullptr;
  return lend_bytes(std::move(memory), payload.data, payload.size, index, entry_kind::hand);
}

// What another node has lent to this one stays in that node's memory: see passed_on.hpp. The loan
// that is found is kept, since the payload may have another one of the same bytes.
bool note_writer::pass_on(const outgoing_payload& payload, std::uint32_t index) {
  if (!payload.freeze || !is_aligned(payload.data)) return false;
  auto at = find_(payload.data, payload.size);
  if (!at) return false;
  auto frozen = payload.freeze(payload);
  if (!frozen) return false;
  using both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  auto keep = std::make_shared<const both>(std::move(frozen), std::move(at->keep));
  if (!to_.readable.pass(at->owner)) return false;
  const auto loan =
      to_.lent->lend(std::move(keep), at->offset, payload.size, loan_book::way::passed_on);
  if (loan == 0) {
    correct(at->owner);
    return false;
  }
  if (named_ != at->owner) {
    entries_.push_back(entry_of(entry_kind::of_node, at->owner));
    named_ = at->owner;
  }
  entries_.push_back({entry_kind::pass, index, loan, at->offset, payload.size});
  return true;
}

// One less was passed on than has been counted.
void note_writer::correct(const node_number& owner) {
  const auto passed = to_.readable.take_back(owner);
  if (!passed) return;
  auto word = entry_of(entry_kind::passed_in_all, owner);
  word.size = *passed;
  to_.words.add(word);
}

// `kind`: lend or hand.
bool note_writer::lend_bytes(std::shared_ptr<const void> keep, const std::byte* data,
                             std::size_t size, std::uint32_t index, entry_kind kind) {
  const auto offset = options_.memory->offset_of(data);
  const auto how = kind == entry_kind::hand ? loan_book::way::handed : loan_book::way::read;
  const auto loan = to_.lent->lend(std::move(keep), offset, size, how);
  if (loan == 0) return false;
  entries_.push_back({kind, index, loan, offset, size});
  return true;
}

// The transport may read it long after `send`, when the peer is slow; whoever may write to it sees
// no difference to what is lent. A copy costs less than freezing up to some size.
void note_writer::settle(outgoing_payload& payload) const {
  if (options_.only_given) return;  // what is in flight is the program's own to leave alone
  if (!payload.freeze || payload.frozen || payload.place.where != memory_place::kind::host) return;
  const bool small = payload.size < options_.copy_from;
  if ((payload.take || !small) && payload.settle()) return;
  if (small) {
    auto block = c10::GetCPUAllocator()->allocate(payload.size);
    std::memcpy(block.get(), payload.data, payload.size);
    payload.data = static_cast<const std::byte*>(block.get());
    payload.keep = std::make_shared<c10::DataPtr>(std::move(block));
    payload.freeze = nullptr;  // they are for what was kept before
    payload.take = nullptr;
  }
}

std::shared_ptr<std::byte> note_writer::copy_into_arena(const outgoing_payload& payload) const {
  auto block = options_.memory->allocate(payload.size);
  if (!options_.memory->owns(block.get())) return nullptr;  // the arena is full
  std::memcpy(block.get(), payload.data, payload.size);
  return copy_on_write::kept(std::move(block));
}

void note_writer::add_ends() {
  if (to_.words.any()) to_.words.take(words_in_a_message, entries_);
  if (to_.borrowed && to_.borrowed->any_ended())
    to_.borrowed->take_ended(std::min(ends_in_a_message, most_entries - entries_.size()), entries_);
}

}  // namespace troupe::transport::lending
