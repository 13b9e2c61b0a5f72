#include "troupe/transport/lending/orphaned_loans.hpp"

#include <algorithm>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/lending/parked_loans.hpp"

namespace troupe::transport::lending {

bool orphaned_loans::add(std::shared_ptr<loan_book> book, const reader& borrower, bool ended,
                         std::vector<reader> readers) {
  if (book->loans() == 0) return false;
  // Of a borrower in this process its tensors end all, what it has passed on included.
  if (!ended && borrower.process == this_process()) {
    park_loans(std::move(book), {borrower.process});
    return false;
  }
  if (ended && readers.empty()) {
    book->end_all();
    return false;
  }
  orphan one;
  one.book = book;
  one.borrower = borrower;
  one.ended = ended;
  one.readers = std::move(readers);
  {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(one));
  }
  if (ended) return true;
  try {
    auto watch =
        on_process_end(borrower.process, [this, node = borrower.node] { process_ended(node); });
    const std::lock_guard lock(mutex_);
    for (auto& each : all_)
      if (each.book == book) each.watches.push_back(std::move(watch));
  } catch (const transport_error& e) {  // then it is kept for good
    log().warn("{} bytes that were lent to process {} are kept until this process ends: {}",
               book->bytes(), borrower.process.pid, e.fault().text);
  }
  return true;
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
  const auto waits_for_it = [&](const orphan& one) {
    return std::ranges::any_of(one.readers,
                               [&](const auto& each) { return each.node == who.node; });
  };
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::none_of(all_, waits_for_it)) return;
  }
  // Nothing says when the tensors of a node of this process that has ended are gone.
  if (who.process == this_process()) return;
  try {
    auto watch = on_process_end(who.process, [this, node = who.node] { process_ended(node); });
    const std::lock_guard lock(mutex_);
    for (auto& one : all_)
      if (waits_for_it(one)) {
        one.watches.push_back(std::move(watch));  // one tells all
        break;
      }
  } catch (const transport_error& e) {
    log().warn(
        "memory that was lent is kept until this process ends, since the end of process {} "
        "cannot be noticed: {}",
        who.process.pid, e.fault().text);
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
    if (at->ended && at->readers.empty()) to.splice(to.end(), all_, at);
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
    park_loans(std::move(one.book), std::move(until));
  }
}

}  // namespace troupe::transport::lending
