// What is passed on, and what becomes of loans whose peer is gone: see passed_on.hpp.
#include <algorithm>
#include <utility>

#include "troupe/messages/tensor/opened_memory.hpp"
#include "troupe/transport/lending/backend.hpp"

namespace troupe::transport::lending {

bool backend::part(peer& p, bool process_has_ended) {
  if (p.lost.exchange(true)) return false;
  p.may_lend = false;
  p.may_hand = false;
  if (process_has_ended) p.ended = true;
  keep_for_what_is_on_its_way(p);
  // One that was never added says nothing about what an earlier connection of the two reads.
  if (p.borrowed)
    p.borrowed->close(p.added ? find_loans(p.node, node_) : std::weak_ptr<loan_book>());
  const orphaned_loans::reader who{p.node, p.process};
  if (p.reads || process_has_ended) orphans_.reader_lost(who, process_has_ended);
  if (p.lent) {
    p.lent->close();
    orphan(p, process_has_ended);
  }
  if (any_late_.load(std::memory_order_relaxed)) let_go_of_late_regions();
  if (!p.devices.empty()) detail::close_unused_memory();
  something_to_tell();  // others may have asked about it
  return true;
}

// What `p` was lent stays until nobody reads it.
void backend::orphan(peer& p, bool process_has_ended) {
  if (p.lent->loans() == 0) return;
  // Its tensors end all, what it has passed on included.
  if (!process_has_ended && is_here(p)) return park_loans(p.lent, {});
  std::vector<std::shared_ptr<peer>> lost;
  {
    // With the lock, so that whoever begins to read is among them, or finds the orphan.
    const std::lock_guard lock(mutex_);
    std::vector<orphaned_loans::reader> readers;
    for (const auto& other : connections_) {
      if (other->node == p.node || !other->reads || other->ended) continue;
      readers.push_back({other->node, other->process});
      other->words.add(entry_of(entry_kind::whose, p.node));
      lost.push_back(other);
    }
    orphans_.enter(p.lent, {p.node, p.process}, process_has_ended, std::move(readers));
  }
  orphans_.begin(p.lent);
  std::erase_if(lost, [](const auto& other) { return !other->lost; });
  for (const auto& other : lost) orphans_.reader_lost({other->node, other->process}, other->ended);
}

bool backend::is_here(const peer& p) const noexcept {
  return p.process == process_ && !options_.apart;
}

// It has mapped this node's memory.
void backend::reads_here(peer& by) {
  {
    const std::lock_guard lock(mutex_);
    by.may_lend = !by.lost;
    if (is_here(by)) return;  // see passed_on.hpp
    if (!by.reads.exchange(true))
      for (const auto& node : orphans_.add_reader({by.node, by.process}))
        by.words.add(entry_of(entry_kind::whose, node));
    by.words.add({.kind = entry_kind::known});
  }
  // Either this sees that it is lost meanwhile, or `part` sees that it reads.
  if (by.lost) orphans_.reader_lost({by.node, by.process}, by.ended);
  something_to_tell();
}

void backend::keep_for_what_is_on_its_way(peer& p) {
  if (!p.borrowed) return;
  late_region kept{p.node, p.borrowed->region(), {}};
  const std::lock_guard lock(mutex_);
  if (!p.known) return;
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
          if (one.from.get() == &by) one.passes = std::min(count, one.passes.value_or(count));
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
    if (auto at = one->borrowed->find_lent(data, size))
      return borrowed_place{one->node, at->offset, std::move(at->keep)};
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
  {
    // With the lock: `part` tells the same nodes that it cannot be read any more.
    const std::lock_guard lock(mutex_);
    if (!by.borrowed || by.lost || by.known.exchange(true)) return;
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
