#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"
#include "troupe/transport/lending/lending_note.hpp"
#include "troupe/transport/lending/loan_book.hpp"
#include "troupe/transport/regions/mapped_region.hpp"

namespace troupe::transport::lending {

/// What one peer has lent to this node: which bytes of the peer's region are in use here, and
/// which no longer are. Thread-safe.
class borrow_book : public std::enable_shared_from_this<borrow_book> {
public:
  /// `tell` is called, on the thread that drops a borrowed pointer, when there is something for
  /// `take_ended` and there was nothing before; after `close`, when anything goes that was passed
  /// on.
  /// `writable`: the same region, for what is handed over; null: nothing is.
  borrow_book(std::shared_ptr<const mapped_region> region, std::function<void()> tell,
              std::shared_ptr<const mapped_region> writable = nullptr);

  /// A pointer to bytes that the peer has lent; readable only. They are the peer's again when the
  /// last copy is dropped, on any thread. It keeps the region mapped. Throws decode_error: the
  /// bytes lie outside the region, or the loan is known already.
  std::shared_ptr<std::byte> borrow(std::uint64_t loan, std::uint64_t offset, std::uint64_t size);

  /// The same for bytes that the peer has handed over: writable.
  std::shared_ptr<std::byte> take_over(std::uint64_t loan, std::uint64_t offset,
                                       std::uint64_t size);

  /// The same for bytes that the peer was lent by `owner` and passes on: they lie in `region`,
  /// which is that node's.
  std::shared_ptr<std::byte> borrow_passed(std::uint64_t loan, const node_number& owner,
                                           std::shared_ptr<const mapped_region> region,
                                           std::uint64_t offset, std::uint64_t size);

  /// What ends a lease of the peer when the last copy is dropped: a null pointer that owns, with a
  /// lease_deleter. Throws decode_error: the loan is known already.
  std::shared_ptr<std::byte> lease(std::uint64_t loan);

  /// Where bytes lie that are borrowed here and are sent back to their owner. From now on the
  /// loan's end waits for them. Nothing if they are not borrowed.
  struct place {
    std::uint64_t loan = 0;
    std::uint64_t offset = 0;
  };
  std::optional<place> give_back(const std::byte* data, std::size_t size);

  /// The same for bytes that the peer has handed over, all of them, and which nobody uses here any
  /// more: their loan ends with the message.
  std::optional<place> hand_back(const std::byte* data, std::size_t size);

  /// Where bytes lie in the peer's region that the peer itself has lent, and what keeps that loan;
  /// nothing: it has not.
  struct lent_place {
    std::uint64_t offset = 0;
    std::shared_ptr<const void> keep;
  };
  std::optional<lent_place> find_lent(const std::byte* data, std::size_t size) const;

  /// Is anything in use here that the peer was lent by `owner`?
  bool reads_of(const node_number& owner) const;

  /// How often `borrow_passed` was called for `owner`.
  std::uint64_t passes_of(const node_number& owner) const;

  /// Whether the peer may hand memory over.
  bool is_writable() const;

  /// The peer's region; null: closed.
  std::shared_ptr<const mapped_region> region() const;

  /// Moves up to `most` loans that have ended here to the end of `to`.
  void take_ended(std::size_t most, std::vector<note_entry>& to);

  /// These entries of `take_ended`, `give_back` and `hand_back` have not been sent after all.
  void take_back(std::span<const note_entry> entries) noexcept;

  /// In use here now. The same bytes count as often as they were lent.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  bool any_ended() const noexcept { return ended_some_.load(std::memory_order_acquire); }

  /// The connection is over, so that nothing is told any more. What ends from now on is entered in
  /// `lender`, if that is in this process; otherwise the lender learns it from the end of this
  /// process. The region stays mapped for what is still borrowed.
  void close(const std::weak_ptr<loan_book>& lender) noexcept;

  /// Calls `tell` no more, as it does after `close` when the last of what was passed on goes.
  void silence() noexcept;

private:
  struct borrowed;
  struct leased;
  struct record {
    std::uint64_t size = 0;
    std::uint64_t given_back = 0;
    std::weak_ptr<const void> held{};  // while it is in use
    bool handed = false;               // over to this node
    bool handed_back = false;          // with a message that may not have been sent
  };

  struct passed {
    node_number owner{};
    std::uint64_t size = 0;
  };
  using records = std::map<std::pair<std::uint64_t, std::uint64_t>, record>;

  void make_room();
  std::shared_ptr<const mapped_region> add(std::uint64_t loan, std::uint64_t offset,
                                           std::uint64_t size, bool handed);
  std::shared_ptr<std::byte> hold(std::shared_ptr<const mapped_region> region, std::uint64_t loan,
                                  std::uint64_t offset, bool passed_on);
  static void check(const mapped_region& region, std::uint64_t offset, std::uint64_t size);
  std::optional<std::pair<std::uint64_t, bool>> locate(const std::byte* data) const;
  records::const_iterator covering(const std::byte* data, std::size_t size,
                                   function_ref<bool(const record&)> accept) const;
  void end(std::uint64_t loan, std::uint64_t offset) noexcept;
  void end_passed(std::uint64_t loan, std::uint32_t how = 0) noexcept;
  void enter(std::unique_lock<std::mutex> lock, const note_entry& end) noexcept;
  record* find(std::uint64_t loan) noexcept;
  std::optional<std::vector<std::uint64_t>> numbers() const noexcept;

  mutable std::mutex mutex_;
  std::shared_ptr<const mapped_region> region_;    // null: closed
  std::shared_ptr<const mapped_region> writable_;  // or null
  records active_;                                 // by offset and loan
  std::map<std::uint64_t, passed> passed_;         // by loan
  std::map<node_number, std::uint64_t> passes_;    // by owner; those that have ended too
  std::atomic<std::uint64_t> bytes_{0};            // of those
  std::vector<note_entry> ended_;
  std::atomic<bool> ended_some_{false};
  std::function<void()> tell_;
  std::weak_ptr<loan_book> lender_;
};

}  // namespace troupe::transport::lending
