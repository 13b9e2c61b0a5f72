// What is passed on, and what becomes of loans whose peer is gone: see passed_on.hpp.
#include <utility>

#include "troupe/transport/lending/backend.hpp"

namespace troupe::transport::lending {

bool backend::part(peer& p, bool process_has_ended) {
  if (p.lost.exchange(true)) return false;
  p.may_lend = false;
  keep_for_what_is_on_its_way(p);
  if (p.borrowed) p.borrowed->close(find_loans(p.node, node_));
  const orphaned_loans::reader who{p.node, p.process};
  orphans_.reader_lost(who, process_has_ended);
  if (p.lent) {
    p.lent->close();
    std::vector<std::shared_ptr<peer>> others;
    std::vector<orphaned_loans::reader> readers;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& other : connections_) {
        if (!other->may_lend || other->lost) continue;
        others.push_back(other);
        readers.push_back({other->node, other->process});
      }
    }
    if (orphans_.add(p.lent, who, process_has_ended, std::move(readers)))
      for (const auto& other : others) {
        other->words.add(entry_of(entry_kind::whose, p.node));
        // Lost meanwhile: it may have been forgotten before it was entered.
        if (other->lost) orphans_.reader_lost({other->node, other->process}, false);
      }
  }
  if (any_late_.load(std::memory_order_relaxed)) let_go_of_late_regions();
  something_to_tell();  // others may have asked about it
  return true;
}

void backend::keep_for_what_is_on_its_way(peer& p) {
  if (!p.known || !p.borrowed) return;
  late_region kept{p.node, p.borrowed->region(), {}};
  const std::lock_guard lock(mutex_);
  for (const auto& one : connections_) {
    if (one.get() == &p || !one->borrowed || one->lost) continue;
    one->words.add(entry_of(entry_kind::cannot_read_of, p.node));
    kept.senders.push_back({one, std::nullopt});
  }
  if (!kept.region || kept.senders.empty()) return;
  late_regions_.push_back(std::move(kept));
  any_late_.store(true, std::memory_order_relaxed);
}

void backend::passed_in_all(peer& by, const node_number& owner, std::uint64_t count) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& late : late_regions_)
      if (late.owner == owner)
        for (auto& one : late.senders)
          if (one.from.get() == &by) one.passes = count;
  }
  let_go_of_late_regions();
}

void backend::let_go_of_late_regions() {
  std::vector<late_region> over;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  for (auto& late : late_regions_) {
    std::erase_if(late.senders, [&](const auto& one) {
      return one.from->lost || !one.from->borrowed ||
             (one.passes && one.from->borrowed->passes_of(late.owner) >= *one.passes);
    });
    if (late.senders.empty()) over.push_back(std::move(late));
  }
  std::erase_if(late_regions_, [](const auto& late) { return late.senders.empty(); });
  any_late_.store(!late_regions_.empty(), std::memory_order_relaxed);
}

// On any thread.
std::optional<borrowed_place> backend::place_of(const std::byte* data, std::size_t size,
                                                const peer& but) const {
  const std::lock_guard lock(mutex_);
  for (const auto& one : connections_) {
    if (one.get() == &but || !one->borrowed || one->lost) continue;
    if (const auto offset = one->borrowed->offset_of(data, size))
      return borrowed_place{one->node, *offset};
  }
  return std::nullopt;
}

std::shared_ptr<const mapped_region> backend::region_of(const node_number& owner) {
  const std::lock_guard lock(mutex_);
  for (const auto& one : connections_)
    if (one->node == owner && one->borrowed)
      if (auto region = one->borrowed->region()) return region;
  for (const auto& late : late_regions_)
    if (late.owner == owner) return late.region;
  return nullptr;
}

// That node asks this one if others may have passed its memory on to it: so they may.
void backend::reader_is_known(peer& by) {
  if (!by.borrowed || by.known.exchange(true)) return;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& other : connections_)
      if (other.get() != &by && other->near && !other->lost && !over_.contains(other->node))
        other->words.add(entry_of(entry_kind::can_read_of, by.node));
  }
  something_to_tell();
}

void backend::asked(peer& by, const node_number& middle) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : connections_)
      if (one.get() == &by) questions_.push_back({one, middle});
  }
  something_to_tell();
}

// Those questions that can be answered by now.
void backend::answer_the_asked() {
  const std::lock_guard lock(mutex_);
  std::erase_if(questions_, [&](const question& one) {
    if (one.by->lost) return true;
    for (const auto& other : connections_) {
      if (other->node != one.middle) continue;
      if (!other->lost) return false;
      if (other->borrowed && other->borrowed->reads_of(one.by->node)) return false;
    }
    over_.insert(one.middle);
    one.by->words.add(entry_of(entry_kind::nothing_of, one.middle));
    return true;
  });
}

}  // namespace troupe::transport::lending
