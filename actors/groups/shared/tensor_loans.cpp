#include "troupe/actors/groups/shared/tensor_loans.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::groups {

namespace {

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

// All of this process, for writers of what is lent, who need not copy it when it has come back.
struct loans_of_process {
  std::mutex mutex;
  std::vector<tensor_loans*> all;
};
loans_of_process& process_loans() {
  static auto* const all = new loans_of_process;  // tensors are written in static destructors too
  return *all;
}

void release_all() {
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> over;  // let go without the lock
  {
    auto& process = process_loans();
    const std::lock_guard lock(process.mutex);
    for (auto* const one : process.all) one->collect(over);
  }
  release_quarantined();  // of groups that have ended
}

}  // namespace

bool can_become_alias(const at::Tensor& tensor) {
  const auto& storage = storage_of(tensor);
  if (tensor.storage_offset() != 0 || tensor.nbytes() != storage.nbytes()) return false;
  const auto& memory = storage.data_ptr();
  // Whose memory it was would miss what is written.
  return (c10::impl::cow::is_cow_data_ptr(memory) || memory.get_context() == memory.get()) &&
         copy_on_write::is_safe();
}

tensor_loans::tensor_loans(std::shared_ptr<membership> of)
    : membership_(std::move(of)), kept_(most_loans + 1) {
  for (int i = most_loans; i > 0; --i) free_.push_back(i);
  auto& process = process_loans();
  const std::lock_guard lock(process.mutex);
  process.all.push_back(this);
  copy_on_write::look_before_copies(&release_all);
}

tensor_loans::~tensor_loans() {
  {
    auto& process = process_loans();
    const std::lock_guard lock(process.mutex);
    std::erase(process.all, this);
  }
  release();
  for (const auto loan : out_) {
    auto& memory = kept_[static_cast<std::size_t>(loan)];
    if (!memory) continue;  // it was lent by an operation that has failed
    hold_memory(std::move(memory->_mutable_data_ptr_no_checks()),
                [of = membership_, at = &cell(loan)] {
                  return at->is_over(of->group.left(), of->host->dead());
                });
  }
}

loan_cell<process_memory>& tensor_loans::cell(int loan) const noexcept {
  return membership_->group.loan(membership_->group.rank(), loan);
}

std::uint64_t tensor_loans::lend(const at::Tensor& tensor, std::uint64_t to) {
  return lend(tensor, to, false);
}

std::uint64_t tensor_loans::lend_by_message(const at::Tensor& tensor, std::uint64_t to) {
  return lend(tensor, to, true);
}

std::uint64_t tensor_loans::lend(const at::Tensor& tensor, std::uint64_t to, bool by_message) {
  const auto view = read_view(tensor);
  const auto place = membership_->group.place_of(view);
  if (place == shared_place::elsewhere || !copy_on_write::is_safe()) return shared_place::elsewhere;
  // What is another rank's memory is kept by that rank, which would not know who has it from here.
  if (shared_place::of(place).rank != membership_->group.rank()) return shared_place::elsewhere;
  auto memory = copy_on_write::freeze(storage_of(tensor));
  if (!memory) return shared_place::elsewhere;
  const std::lock_guard lock(mutex_);
  const auto loan = reserve_locked(to);
  if (loan == 0) return shared_place::elsewhere;
  if (!by_message) fresh_.push_back(loan);
  kept_[static_cast<std::size_t>(loan)] = std::move(memory);
  return membership_->group.place_of(view, loan);
}

void tensor_loans::take_back(std::uint64_t place) noexcept {
  {
    const std::lock_guard lock(mutex_);
    cell(shared_place::of(place).loan).lend(0);
  }
  release();
}

int tensor_loans::reserve(std::uint64_t to) {
  const std::lock_guard lock(mutex_);
  const auto loan = reserve_locked(to);
  if (loan != 0) fresh_.push_back(loan);
  return loan;
}

int tensor_loans::reserve_locked(std::uint64_t to) {
  if (free_.empty()) return 0;
  const auto loan = free_.back();
  free_.pop_back();
  cell(loan).lend(to);
  out_.push_back(loan);
  out_count_.store(out_.size(), std::memory_order_relaxed);
  return loan;
}

void tensor_loans::keep(int loan, const at::Tensor& tensor) {
  auto memory = copy_on_write::freeze(storage_of(tensor));
  if (!memory) throw internal_error("the result of a group cannot be kept as it is");
  const std::lock_guard lock(mutex_);
  kept_[static_cast<std::size_t>(loan)] = std::move(memory);
}

void tensor_loans::accepted() noexcept {
  const std::lock_guard lock(mutex_);
  fresh_.clear();
}

void tensor_loans::withdraw() noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (const auto loan : fresh_) cell(loan).lend(0);
    fresh_.clear();
  }
  release();
}

void tensor_loans::release_some() {
  std::vector<storage_pointer> over;  // let go without the lock
  collect(over);
}

void tensor_loans::collect(std::vector<storage_pointer>& over) {
  if (out_count_.load(std::memory_order_relaxed) == 0) return;
  // When the group has failed: the dead give nothing back, and who has left takes nothing any more.
  const bool failed = membership_->group.aborted();
  const auto left = failed ? membership_->group.left() : 0;
  const auto dead = failed ? membership_->host->dead() : 0;
  const std::lock_guard lock(mutex_);
  std::erase_if(out_, [&](int loan) {
    // A result that this rank has still to keep is not over, though all others have dropped it.
    if (std::ranges::find(fresh_, loan) != fresh_.end() || !cell(loan).is_over(left, dead))
      return false;
    over.push_back(std::move(kept_[static_cast<std::size_t>(loan)]));
    free_.push_back(loan);
    return true;
  });
  out_count_.store(out_.size(), std::memory_order_relaxed);
}

void tensor_loans::borrow(const at::Tensor& tensor, const borrowed_part& from) const {
  std::shared_ptr<std::byte> memory(from.data,
                                    [of = membership_, loan = from.loan](std::byte*) noexcept {
                                      loan->give_back(of->group.rank());
                                    });
  storage_of(tensor).set_data_ptr_noswap(copy_on_write::read_only(std::move(memory)));
}

void tensor_loans::share(const at::Tensor& tensor, const at::Tensor& input) {
  auto memory = copy_on_write::freeze(storage_of(input));
  if (!memory) {
    // Memory of the program, which it may write at any time.
    std::memcpy(tensor.mutable_data_ptr(), input.const_data_ptr(), input.nbytes());
    return;
  }
  auto* const data = static_cast<std::byte*>(const_cast<void*>(input.const_data_ptr()));
  std::shared_ptr<std::byte> owner(
      data, [kept = std::move(memory)](std::byte*) mutable noexcept { kept.reset(); });
  storage_of(tensor).set_data_ptr_noswap(copy_on_write::read_only(std::move(owner)));
}

}  // namespace troupe::groups
