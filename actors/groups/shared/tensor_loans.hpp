#pragma once

#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/groups/shared/membership.hpp"

namespace at {
class Tensor;
}

namespace troupe::groups {

/// Can `tensor` become an alias of other memory, of as many bytes? It has all of its storage, of
/// memory that nobody but libtorch's allocators has made.
bool can_become_alias(const at::Tensor& tensor);

/// What this rank lends to others of its group: memory of tensors, which stays as it is until all
/// have given it back. Whoever writes to such a tensor writes to a copy, until then. Thread-safe,
/// but `accepted` and `withdraw` are those of one operation at a time.
class tensor_loans {
public:
  explicit tensor_loans(std::shared_ptr<membership> of);
  /// What is not given back yet is kept by the process: see quarantine.hpp.
  ~tensor_loans();
  tensor_loans(const tensor_loans&) = delete;
  tensor_loans& operator=(const tensor_loans&) = delete;

  /// Lends what `tensor` has now to ranks `to`, as bits. Returns the place to show them;
  /// shared_place::elsewhere if it lies where they cannot reach it, or too much is lent.
  std::uint64_t lend(const at::Tensor& tensor, std::uint64_t to);
  /// The same for a message, whose receiver gives it back: not among what `withdraw` takes back.
  std::uint64_t lend_by_message(const at::Tensor& tensor, std::uint64_t to);

  /// The message with that place was not sent: nobody has the loan.
  void take_back(std::uint64_t place) noexcept;

  /// The same as `lend` for memory that is to be written first: `keep` says by which storage.
  /// Returns the number of the loan; 0: too much is lent.
  int reserve(std::uint64_t to);
  void keep(int loan, const at::Tensor& tensor);

  /// All that was lent since the last call has been seen by all ranks, who take it.
  void accepted() noexcept;
  /// Nobody takes what was lent since `accepted`.
  void withdraw() noexcept;

  /// `tensor`, which can become an alias, is one of what another rank has lent.
  void borrow(const at::Tensor& tensor, const borrowed_part& from) const;
  /// Is one of what this rank itself has in `input`, or a copy where that cannot be shared.
  static void share(const at::Tensor& tensor, const at::Tensor& input);

  using storage_pointer = c10::intrusive_ptr<c10::StorageImpl>;

  /// Lets go what has come back.
  void release() {
    if (out_count_.load(std::memory_order_relaxed) > 0) release_some();
  }
  /// Moves what has come back there.
  void collect(std::vector<storage_pointer>& over);

private:
  loan_cell<process_memory>& cell(int loan) const noexcept;
  void release_some();
  int reserve_locked(std::uint64_t to);
  std::uint64_t lend(const at::Tensor& tensor, std::uint64_t to, bool by_message);

  const std::shared_ptr<membership> membership_;
  std::atomic<std::size_t> out_count_{0};
  std::mutex mutex_;
  std::vector<storage_pointer> kept_;  // by number
  std::vector<int> out_, free_;
  std::vector<int> fresh_;  // of those that are out: of the operation that runs
};

}  // namespace troupe::groups
