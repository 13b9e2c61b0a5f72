#include "troupe/transport/lending/orphaned_loans.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/lending/parked_loans.hpp"

namespace troupe::transport::lending {

void orphaned_loans::enter(std::shared_ptr<loan_book> book, const reader& borrower, bool ended,
                           std::vector<reader> readers) {
  const std::lock_guard lock(mutex_);
  all_.push_back({std::move(book), borrower, ended, std::move(readers), {}});
}

void orphaned_loans::begin(const std::shared_ptr<loan_book>& book) {
  std::list<orphan> over;
  std::optional<reader> alive;
  {
    const std::lock_guard lock(mutex_);
    take_finished(over);
    if (const auto* const one = find(*book); one && !one->ended) alive = one->borrower;
  }
  finish(std::move(over));
  if (!alive) return;
  auto end = watch(*alive, *book);
  const std::lock_guard lock(mutex_);
  if (auto* const one = find(*book)) one->watches.push_back(std::move(end));
}

std::vector<node_number> orphaned_loans::add_reader(const reader& one) {
  std::vector<node_number> of;
  const std::lock_guard lock(mutex_);
  for (auto& each : all_) {
    each.readers.push_back(one);
    of.push_back(each.borrower.node);
  }
  return of;
}

// Under the lock. Null: it is finished.
orphaned_loans::orphan* orphaned_loans::find(const loan_book& book) noexcept {
  for (auto& one : all_)
    if (one.book.get() == &book) return &one;
  return nullptr;
}

// Without a watch the loans are kept for good.
process_end_watch orphaned_loans::watch(const reader& who, const loan_book& book) {
  if (!watches_) return {};
  try {
    return on_process_end(who.process, [this, node = who.node] { process_ended(node); });
  } catch (const transport_error& e) {
    log().warn(
        "{} bytes that were lent are kept until this process ends, since the end of process "
        "{} cannot be noticed: {}",
        book.bytes(), who.process.pid, e.fault().text);
    return {};
  }
}

void orphaned_loans::forget_reader(orphan& one, const node_number& reader) {
  std::erase_if(one.readers, [&](const auto& each) { return each.node == reader; });
}

void orphaned_loans::answered(const node_number& borrower, const node_number& by) {
  std::list<orphan> over;
  {
    const std::lock_guard lock(mutex_);
    for (auto& one : all_)
      if (one.borrower.node == borrower) forget_reader(one, by);
    take_finished(over);
  }
  finish(std::move(over));
}

void orphaned_loans::reader_lost(const reader& who, bool ended) {
  if (ended) return process_ended(who.node);
  std::vector<std::shared_ptr<loan_book>> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (auto& one : all_)
      for (auto& each : one.readers)
        if (each.node == who.node && !std::exchange(each.watched, true))
          waiting.push_back(one.book);
  }
  for (const auto& book : waiting) {
    auto end = watch(who, *book);
    const std::lock_guard lock(mutex_);
    if (auto* const one = find(*book)) one->watches.push_back(std::move(end));
  }
}

void orphaned_loans::process_ended(const node_number& whose) {
  std::list<orphan> over;
  {
    const std::lock_guard lock(mutex_);
    for (auto& one : all_) {
      if (one.borrower.node == whose) one.ended = true;
      forget_reader(one, whose);
    }
    take_finished(over);
  }
  finish(std::move(over));
}

void orphaned_loans::take_finished(std::list<orphan>& to) {
  for (auto at = all_.begin(); at != all_.end();) {
    const auto next = std::next(at);
    const bool read = !at->ended || !at->readers.empty();
    if (!read || at->book->loans() == 0) to.splice(to.end(), all_, at);
    at = next;
  }
}

// Without the lock: a watch that goes waits for what it calls, and what was kept may be a user's.
void orphaned_loans::finish(std::list<orphan>&& all) noexcept {
  for (auto& one : all) one.book->end_all();
}

void orphaned_loans::park_all() noexcept {
  std::list<orphan> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(all_);
  }
  for (auto& one : all) {
    one.watches.clear();
    std::vector<process_identity> until;
    if (!one.ended) until.push_back(one.borrower.process);
    for (const auto& each : one.readers) until.push_back(each.process);
    park_loans(std::move(one.book), until);
  }
}

}  // namespace troupe::transport::lending
