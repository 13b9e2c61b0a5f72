#include "troupe/transport/lending/parked_loans.hpp"

#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/process_end.hpp"

namespace troupe::transport::lending {

namespace {

struct parked_book {
  std::shared_ptr<loan_book> book;
  process_end_watch end;  // of the borrower
};

struct loan_registry {
  std::mutex mutex;
  std::map<std::pair<node_number, node_number>, std::weak_ptr<loan_book>> known;
  std::list<parked_book> parked;
};

// Never destroyed: tensors end in static destructors.
loan_registry& registry() {
  static auto* const one = new loan_registry;
  return *one;
}

}  // namespace

void publish_loans(const node_number& lender, const node_number& borrower,
                   const std::shared_ptr<loan_book>& book) {
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.known, [](const auto& one) { return one.second.expired(); });
  all.known.insert_or_assign({lender, borrower}, book);
}

std::weak_ptr<loan_book> find_loans(const node_number& lender, const node_number& borrower) {
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find({lender, borrower});
  return found == all.known.end() ? std::weak_ptr<loan_book>() : found->second;
}

void park_loans(std::shared_ptr<loan_book> book, const process_identity& borrower) {
  if (book->loans() == 0) return;
  // A book of a borrower in this process is emptied by its tensors.
  process_end_watch end;
  if (borrower != this_process()) {
    try {
      end = on_process_end(borrower, [book] {
        book->end_all();
        forget_ended_loans();
      });
    } catch (const transport_error& e) {  // then it is kept for good
      log().warn("{} bytes that were lent to process {} are kept until this process ends: {}",
                 book->bytes(), borrower.pid, e.fault().text);
    }
  }
  auto& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    all.parked.push_back({std::move(book), std::move(end)});
  }
  forget_ended_loans();  // it may have ended meanwhile
}

void forget_ended_loans() noexcept {
  auto& all = registry();
  std::list<parked_book> ended;  // let go outside the lock: a handle waits for what it calls
  const std::lock_guard lock(all.mutex);
  for (auto at = all.parked.begin(); at != all.parked.end();) {
    const auto next = std::next(at);
    if (at->book->loans() == 0) ended.splice(ended.end(), all.parked, at);
    at = next;
  }
}

}  // namespace troupe::transport::lending
