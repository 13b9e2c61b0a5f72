#include "troupe/transport/lending/parked_loans.hpp"

#include <atomic>
#include <cstddef>
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
  std::vector<process_end_watch> ends;  // of those that may read
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

void park_loans(std::shared_ptr<loan_book> book, const std::vector<process_identity>& readers) {
  if (book->loans() == 0) return;
  std::vector<process_end_watch> ends;
  if (!readers.empty()) {
    const auto left = std::make_shared<std::atomic<std::size_t>>(readers.size());
    try {
      for (const auto& reader : readers)
        ends.push_back(on_process_end(reader, [book, left] {
          if (left->fetch_sub(1) > 1) return;
          book->end_all();
          forget_ended_loans();
        }));
    } catch (const transport_error& e) {  // then it is kept for good
      log().warn("{} bytes that were lent are kept until this process ends: {}", book->bytes(),
                 e.fault().text);
    }
  }
  auto& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    all.parked.push_back({std::move(book), std::move(ends)});
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
