#include "troupe/actors/rref/drop_queue.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "troupe/messages/codec/archive.hpp"

namespace troupe::detail {

// They are written as they lie in memory.
static_assert(std::has_unique_object_representations_v<dropped_uses>);

void drop_queue::write_one(encoder& out, const rref_id& id, std::uint64_t use) {
  out.put(std::uint64_t{1});
  const dropped_uses one{id.creator, 1, id.creator_incarnation, id.number, use};
  out.raw(&one, sizeof one);
}

void drop_queue::add(const rref_id& id, std::uint64_t use) {
  // Entries that are being sent must stay as they were written.
  const auto busy = whole_ + (part_ > 0 ? 1 : 0);
  if (use == 0 && waiting() > busy) {
    auto& last = entries_.back();
    if (last.use == 0 && last.creator == id.creator &&
        last.creator_incarnation == id.creator_incarnation &&
        last.count < std::numeric_limits<std::uint32_t>::max()) {
      // References are usually dropped in the order in which they were made, or in reverse.
      if (id.number == last.first + last.count) {
        ++last.count;
        return;
      }
      if (id.number + 1 == last.first) {
        --last.first;
        ++last.count;
        return;
      }
    }
  }
  entries_.push_back({id.creator, 1, id.creator_incarnation, id.number, use});
}

void drop_queue::write(encoder& out) {
  const auto* next = entries_.data() + first_;
  const auto most = std::min(waiting(), most_entries);
  std::size_t whole = 0;
  auto room = most_uses;
  while (whole < most && next[whole].count <= room) room -= next[whole++].count;
  const auto part = whole < most ? room : 0;  // of an entry that has more uses than fit
  out.put(std::uint64_t{whole + (part > 0 ? 1 : 0)});
  out.raw(next, whole * sizeof *next);
  if (part > 0) {
    auto some = next[whole];
    some.count = part;
    out.raw(&some, sizeof some);
  }
  whole_ = whole;
  part_ = part;
  sending_ = true;
  ++under_way_;
}

void drop_queue::sent() noexcept {
  sending_ = false;
  first_ += std::exchange(whole_, 0);
  if (part_ > 0) {
    entries_[first_].first += part_;
    entries_[first_].count -= std::exchange(part_, 0);
  }
  if (first_ < entries_.size()) {
    if (first_ <= entries_.size() / 2) return;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
  } else if (entries_.capacity() > most_entries) {
    entries_ = std::vector<dropped_uses>();  // a long queue's memory is given back
  } else {
    entries_.clear();
  }
  first_ = 0;
}

void drop_queue::not_sent() noexcept {
  sending_ = false;
  whole_ = 0;
  part_ = 0;
  not_under_way();
}

void drop_queue::clear() noexcept {
  entries_ = std::vector<dropped_uses>();
  first_ = 0;
  under_way_ = 0;
  whole_ = 0;
  part_ = 0;
}

}  // namespace troupe::detail
