#include "actors/rref/drop_queue.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::detail {

void drop_queue::add(const rref_id& id, std::uint64_t use) {
  if (use == 0 && !waiting_.empty()) {
    auto& last = waiting_.back();
    if (last.use == 0 && last.creator == id.creator &&
        last.creator_incarnation == id.creator_incarnation &&
        last.count < std::numeric_limits<std::uint32_t>::max()) {
      // References go in the order in which they were made, or the other way round.
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
  was_long_ |= waiting_.size() > most_entries;
  waiting_.push_back({id.creator, 1, id.creator_incarnation, id.number, use});
}

drop_queue::message drop_queue::take() {
  message out;
  if (waiting_.empty() || under_way_ == most_under_way) return out;
  ++under_way_;
  std::uint32_t room = most_uses;
  while (!waiting_.empty() && room > 0 && out.size() < most_entries) {
    auto& next = waiting_.front();
    out.push_back(next);
    const auto part = out.back().count = std::min(next.count, room);
    room -= part;
    if (part < next.count) {
      next.first += part;
      next.count -= part;
    } else {
      waiting_.pop_front();
    }
  }
  // What a long queue has kept for its next entries is given back.
  if (waiting_.empty() && std::exchange(was_long_, false)) waiting_ = {};
  return out;
}

}  // namespace troupe::detail
