#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/transport/lending/loan_book.hpp"
#include "troupe/transport/lending/node_number.hpp"
#include "troupe/transport/system/process.hpp"
#include "troupe/transport/system/process_end.hpp"

namespace troupe::transport::lending {

/// What peers had been lent whose connection is over. It stays as it is until nobody reads it: not
/// the peer, whose process must have ended for certain, and not those whom it may have passed it on
/// to (passed_on.hpp), who are asked. Thread-safe.
class orphaned_loans {
public:
  struct reader {
    node_number node{};
    process_identity process;
    bool watched = false;  ///< for this class
  };

  orphaned_loans() = default;
  ~orphaned_loans() { park_all(); }
  orphaned_loans(const orphaned_loans&) = delete;
  orphaned_loans& operator=(const orphaned_loans&) = delete;

  /// `book` is what `borrower` had; it is closed. `ended`: so has its process. `readers` may read
  /// the memory, too. Calls nothing: `begin` must follow, with no lock held.
  void enter(std::shared_ptr<loan_book> book, const reader& borrower, bool ended,
             std::vector<reader> readers);
  void begin(const std::shared_ptr<loan_book>& book);

  /// One more may read. Returns the borrowers that it is to be asked about.
  std::vector<node_number> add_reader(const reader& one);

  /// The reader `by` reads nothing that `borrower` has passed on, and will not.
  void answered(const node_number& borrower, const node_number& by);

  /// A reader cannot be asked, or not any more: it reads until its process ends.
  void reader_lost(const reader& who, bool ended);

  /// The node ends: `park_all` follows.
  void stop_watching() noexcept { watches_ = false; }

  /// Nobody can be asked any more: what is left waits for the ends of processes. No other call
  /// comes after it.
  void park_all() noexcept;

private:
  struct orphan {
    std::shared_ptr<loan_book> book;
    reader borrower;
    bool ended = false;
    std::vector<reader> readers;  // that have not answered
    std::vector<process_end_watch> watches;
  };

  void process_ended(const node_number& whose);
  orphan* find(const loan_book& book) noexcept;
  process_end_watch watch(const reader& who, const loan_book& book);
  void take_finished(std::list<orphan>& to);
  static void finish(std::list<orphan>&& all) noexcept;
  static void forget_reader(orphan& one, const node_number& reader);

  std::mutex mutex_;
  std::list<orphan> all_;
  std::atomic<bool> watches_{true};
};

}  // namespace troupe::transport::lending
