#include "troupe/transport/lending/borrow_book.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/tensor/lease_outcome.hpp"
#include "troupe/transport/lending/parked_loans.hpp"

namespace troupe::transport::lending {

namespace {

// How many loans that begin before the bytes are looked at for one that holds them all.
constexpr int looks_back = 8;

// In a book of this process.
void enter_end(loan_book& lender, std::uint64_t loan, std::uint64_t times_given_back) noexcept {
  try {
    lender.end(loan, times_given_back);
  } catch (const decode_error&) {  // the lender has been told that this process has ended
  }
}

}  // namespace

struct borrow_book::borrowed {
  borrowed(std::shared_ptr<borrow_book> from, std::shared_ptr<const mapped_region> in,
           std::uint64_t number, std::uint64_t begin, bool of_third)
      : book(std::move(from)),
        region(std::move(in)),
        loan(number),
        offset(begin),
        passed_on(of_third) {}
  ~borrowed() {
    if (forked::from_nodes()) return;
    passed_on ? book->end_passed(loan) : book->end(loan, offset);
  }
  borrowed(const borrowed&) = delete;
  borrowed& operator=(const borrowed&) = delete;

  const std::shared_ptr<borrow_book> book;
  const std::shared_ptr<const mapped_region> region;
  const std::uint64_t loan;
  const std::uint64_t offset;
  const bool passed_on;
};

struct borrow_book::leased final : lease_outcome {
  leased(std::shared_ptr<borrow_book> from, std::uint64_t number)
      : book(std::move(from)), loan(number) {}
  ~leased() override {
    if (forked::from_nodes()) return;
    book->end_passed(loan, could_not_open ? unopened : 0);
  }
  leased(const leased&) = delete;
  leased& operator=(const leased&) = delete;

  const std::shared_ptr<borrow_book> book;
  const std::uint64_t loan;
};

borrow_book::borrow_book(std::shared_ptr<const mapped_region> region, std::function<void()> tell,
                         std::shared_ptr<const mapped_region> writable)
    : region_(std::move(region)), writable_(std::move(writable)), tell_(std::move(tell)) {}

void borrow_book::check(const mapped_region& region, std::uint64_t offset, std::uint64_t size) {
  if (size == 0 || size > region.size() || offset > region.size() - size)
    throw decode_error("A note about lent memory lends " + std::to_string(size) + " bytes at " +
                       std::to_string(offset) + ", and its owner's region has " +
                       std::to_string(region.size()) + ".");
}

// So that `end` allocates nothing.
void borrow_book::make_room() {
  if (!region_) throw decode_error("A note about lent memory comes after its connection's end.");
  const auto most = ended_.size() + active_.size() + passed_.size() + 1;
  if (ended_.capacity() < most) ended_.reserve(2 * most);
}

std::shared_ptr<const mapped_region> borrow_book::add(std::uint64_t loan, std::uint64_t offset,
                                                      std::uint64_t size, bool handed) {
  const std::lock_guard lock(mutex_);
  make_room();
  const auto& region = handed ? writable_ : region_;
  if (!region)
    throw decode_error("A note hands memory over that this node has not mapped for writing.");
  check(*region, offset, size);
  if (!active_.try_emplace({offset, loan}, record{.size = size, .handed = handed}).second)
    throw decode_error("A note about lent memory lends loan " + std::to_string(loan) + " twice.");
  bytes_.fetch_add(size, std::memory_order_relaxed);
  return region;
}

std::shared_ptr<std::byte> borrow_book::borrow(std::uint64_t loan, std::uint64_t offset,
                                               std::uint64_t size) {
  return hold(add(loan, offset, size, false), loan, offset, false);
}

std::shared_ptr<std::byte> borrow_book::take_over(std::uint64_t loan, std::uint64_t offset,
                                                  std::uint64_t size) {
  return hold(add(loan, offset, size, true), loan, offset, false);
}

std::shared_ptr<std::byte> borrow_book::borrow_passed(std::uint64_t loan, const node_number& owner,
                                                      std::shared_ptr<const mapped_region> region,
                                                      std::uint64_t offset, std::uint64_t size) {
  check(*region, offset, size);
  {
    const std::lock_guard lock(mutex_);
    make_room();
    if (!passed_.try_emplace(loan, passed{owner, size}).second)
      throw decode_error("A note about lent memory passes loan " + std::to_string(loan) +
                         " on twice.");
    ++passes_[owner];
    bytes_.fetch_add(size, std::memory_order_relaxed);
  }
  return hold(std::move(region), loan, offset, true);
}

std::shared_ptr<std::byte> borrow_book::lease(std::uint64_t loan) {
  {
    const std::lock_guard lock(mutex_);
    make_room();
    // Among those that were passed on, which lie in no region of the peer either. No node has the
    // number zero.
    if (!passed_.try_emplace(loan, passed{{}, 0}).second)
      throw decode_error("A note about lent memory leases loan " + std::to_string(loan) +
                         " twice.");
  }
  lease_deleter end;
  try {
    end.outcome = std::make_shared<leased>(shared_from_this(), loan);
  } catch (...) {
    end_passed(loan);
    throw;
  }
  return {static_cast<std::byte*>(nullptr), std::move(end)};
}

std::shared_ptr<std::byte> borrow_book::hold(std::shared_ptr<const mapped_region> region,
                                             std::uint64_t loan, std::uint64_t offset,
                                             bool passed_on) {
  const auto* const bytes = region->data() + offset;
  std::shared_ptr<borrowed> held;
  try {
    held =
        std::make_shared<borrowed>(shared_from_this(), std::move(region), loan, offset, passed_on);
  } catch (...) {
    passed_on ? end_passed(loan) : end(loan, offset);
    throw;
  }
  if (!passed_on) {
    const std::lock_guard lock(mutex_);
    active_.at({offset, loan}).held = held;
  }
  // Written through only if the mapping can be: tensors of another one copy at their first write.
  return {std::move(held), const_cast<std::byte*>(bytes)};
}

// Where bytes lie that are borrowed here, in the peer's region; and whether they can be written.
// Nothing: they are not. Under the lock.
std::optional<std::pair<std::uint64_t, bool>> borrow_book::locate(const std::byte* data) const {
  for (const auto* const region : {&region_, &writable_})
    if (*region && (*region)->contains(data))
      return std::pair(static_cast<std::uint64_t>(data - (*region)->data()), region == &writable_);
  return std::nullopt;
}

// An accepted loan that holds all of these bytes; the end: there is none. Under the lock.
borrow_book::records::const_iterator borrow_book::covering(
    const std::byte* data, std::size_t size, function_ref<bool(const record&)> accept) const {
  const auto found = locate(data);
  if (!found) return active_.end();
  const auto [offset, handed] = *found;
  auto at = active_.upper_bound({offset, ~std::uint64_t{0}});
  for (int i = 0; i < looks_back && at != active_.begin(); ++i) {
    --at;
    const auto skipped = offset - at->first.first;
    if (at->second.handed == handed && skipped <= at->second.size &&
        size <= at->second.size - skipped && accept(at->second))
      return at;
  }
  return active_.end();
}

std::optional<borrow_book::place> borrow_book::give_back(const std::byte* data, std::size_t size) {
  const std::lock_guard lock(mutex_);
  // What was handed over may be written here while its owner reads it.
  const auto at = covering(data, size, [](const record& one) { return !one.handed; });
  if (at == active_.end()) return std::nullopt;
  ++active_.at(at->first).given_back;
  return place{at->first.second, locate(data)->first};
}

std::optional<borrow_book::place> borrow_book::hand_back(const std::byte* data, std::size_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = locate(data);
  if (!found || !found->second) return std::nullopt;
  const auto offset = found->first;
  for (auto at = active_.lower_bound({offset, 0}); at != active_.end(); ++at) {
    auto& [key, one] = *at;
    if (key.first != offset) break;
    if (!one.handed || one.handed_back || one.size != size) continue;
    one.handed_back = true;
    return place{key.second, offset};
  }
  return std::nullopt;
}

std::optional<borrow_book::lent_place> borrow_book::find_lent(const std::byte* data,
                                                              std::size_t size) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const void> keep;
  const auto at = covering(data, size, [&](const record& one) {
    keep = one.held.lock();  // null: it ends just now
    return keep != nullptr;
  });
  if (at == active_.end()) return std::nullopt;
  return lent_place{locate(data)->first, std::move(keep)};
}

bool borrow_book::reads_of(const node_number& owner) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(passed_, [&](const auto& one) { return one.second.owner == owner; });
}

std::uint64_t borrow_book::passes_of(const node_number& owner) const {
  const std::lock_guard lock(mutex_);
  const auto at = passes_.find(owner);
  return at == passes_.end() ? 0 : at->second;
}

bool borrow_book::is_writable() const {
  const std::lock_guard lock(mutex_);
  return writable_ != nullptr;
}

std::shared_ptr<const mapped_region> borrow_book::region() const {
  const std::lock_guard lock(mutex_);
  return region_;
}

void borrow_book::end(std::uint64_t loan, std::uint64_t offset) noexcept {
  std::unique_lock lock(mutex_);
  const auto at = active_.find({offset, loan});
  const auto times = at->second.given_back;
  // Its owner has it, or will, as long as messages come.
  const bool told = at->second.handed_back && region_;
  bytes_.fetch_sub(at->second.size, std::memory_order_relaxed);
  active_.erase(at);
  if (!told) enter(std::move(lock), {.kind = entry_kind::end, .loan = loan, .size = times});
}

void borrow_book::end_passed(std::uint64_t loan, std::uint32_t how) noexcept {
  std::unique_lock lock(mutex_);
  const auto at = passed_.find(loan);
  bytes_.fetch_sub(at->second.size, std::memory_order_relaxed);
  passed_.erase(at);
  // The owner may be waiting for it: see passed_on.hpp.
  if (!region_ && tell_) tell_();
  enter(std::move(lock), {.kind = entry_kind::end, .index = how, .loan = loan});
}

// Tells the lender that a loan has ended here.
void borrow_book::enter(std::unique_lock<std::mutex> lock, const note_entry& end) noexcept {
  if (region_) {
    ended_.push_back(end);
    // Under the lock: `silence` must not end what `tell_` uses meanwhile.
    if (!ended_some_.exchange(true, std::memory_order_acq_rel)) tell_();
    return;
  }
  auto lender = lender_.lock();
  lock.unlock();
  if (!lender) return;
  enter_end(*lender, end.loan, end.size);
  lender.reset();
  forget_ended_loans();
}

void borrow_book::take_ended(std::size_t most, std::vector<note_entry>& to) {
  if (!any_ended()) return;
  const std::lock_guard lock(mutex_);
  const auto count = std::min(most, ended_.size());
  to.insert(to.end(), ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
  if (ended_.empty()) ended_some_.store(false, std::memory_order_release);
}

borrow_book::record* borrow_book::find(std::uint64_t loan) noexcept {
  for (auto& [key, one] : active_)
    if (key.second == loan) return &one;
  return nullptr;
}

// Of what is in use; nothing: there is no memory to say it.
std::optional<std::vector<std::uint64_t>> borrow_book::numbers() const noexcept {
  try {
    std::vector<std::uint64_t> all;
    for (const auto& [key, one] : active_) all.push_back(key.second);
    for (const auto& [loan, one] : passed_) all.push_back(loan);
    return all;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// Rare, so that it may take its time. The room for ends is there: they were taken from it.
void borrow_book::take_back(std::span<const note_entry> entries) noexcept {
  std::shared_ptr<loan_book> lender;
  std::vector<note_entry> direct;
  {
    const std::lock_guard lock(mutex_);
    lender = region_ ? nullptr : lender_.lock();
    auto& ends = region_ ? ended_ : direct;
    for (const auto& one : entries) {
      if (one.kind == entry_kind::end) ends.push_back(one);
      if (one.kind != entry_kind::hand_back) continue;
      if (auto* const still = find(one.loan))
        still->handed_back = false;
      else
        ends.push_back({entry_kind::end, 0, one.loan, 0, 0});
    }
    for (const auto& back : entries) {
      if (back.kind != entry_kind::give_back) continue;
      if (auto* const one = find(back.loan)) {
        --one->given_back;
        continue;
      }
      for (auto& end : ends)
        if (end.loan == back.loan) --end.size;
    }
    if (!ended_.empty() && !ended_some_.exchange(true, std::memory_order_acq_rel)) tell_();
  }
  if (!lender) return;
  for (const auto& one : direct) enter_end(*lender, one.loan, one.size);
}

void borrow_book::close(const std::weak_ptr<loan_book>& lender) noexcept {
  std::vector<note_entry> untold;
  std::optional<std::vector<std::uint64_t>> read;
  std::shared_ptr<const mapped_region> region;  // unmapped without the lock
  std::shared_ptr<const mapped_region> writable;
  const auto to = lender.lock();
  {
    const std::lock_guard lock(mutex_);
    region.swap(region_);
    writable.swap(writable_);
    lender_ = lender;
    untold.swap(ended_);
    ended_some_ = false;
    if (to) read = numbers();
  }
  if (!to) return;
  for (const auto& one : untold) enter_end(*to, one.loan, one.size);
  if (read) to->only_read(std::move(*read));
  forget_ended_loans();
}

void borrow_book::silence() noexcept {
  const std::lock_guard lock(mutex_);
  tell_ = nullptr;
}

}  // namespace troupe::transport::lending
