#include "troupe/transport/lending/loan_book.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::lending {

// A number is a place, from 1 on, and that place's turn.

std::uint64_t loan_book::lend(std::shared_ptr<const void> keep, std::uint64_t offset,
                              std::uint64_t size, way how) {
  const std::lock_guard lock(mutex_);
  if (!takes(size)) return 0;
  if (free_ == none) {
    if (loans_.size() >= none - 1) return 0;
    free_ = static_cast<std::uint32_t>(loans_.size());
    loans_.emplace_back().next = none;
  }
  const auto place = free_;
  auto& one = loans_[place];
  free_ = one.next;
  one.keep = std::move(keep);
  one.offset = offset;
  one.size = size;
  one.given_back = 0;
  one.due = 0;
  one.ending = false;
  one.how = how;
  ++count_;
  if (how == way::leased) ++leases_;
  bytes_ += size;
  return std::uint64_t{one.turn} << 32 | (place + 1);
}

loan_book::loan& loan_book::find(std::uint64_t number) {
  const auto place = static_cast<std::uint32_t>(number) - 1;
  if (place >= loans_.size() || !loans_[place].keep || loans_[place].turn != number >> 32)
    throw decode_error("A note about lent memory names loan " + std::to_string(number) +
                       ", which has ended or never was.");
  return loans_[place];
}

std::shared_ptr<const void> loan_book::remove(loan& which) noexcept {
  auto keep = std::move(which.keep);
  ++which.turn;
  which.next = std::exchange(free_, static_cast<std::uint32_t>(&which - loans_.data()));
  --count_;
  if (which.how == way::leased) --leases_;
  bytes_ -= which.size;
  return keep;
}

// What is kept is let go outside the lock, here and below: tensors end, and with them what users
// have put into their storages.

void loan_book::cancel(std::uint64_t number) noexcept {
  std::shared_ptr<const void> keep;
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::uint32_t>(number) - 1;
  if (place < loans_.size() && loans_[place].keep && loans_[place].turn == number >> 32)
    keep = remove(loans_[place]);
}

std::shared_ptr<const void> loan_book::give_back(std::uint64_t number, std::uint64_t offset,
                                                 std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto& one = find(number);
  if (one.how != way::read || size == 0 || offset < one.offset || size > one.size ||
      offset - one.offset > one.size - size)
    throw decode_error("A note about lent memory gives back bytes that are not those of loan " +
                       std::to_string(number) + ".");
  ++one.given_back;
  if (one.ending && one.given_back == one.due) return remove(one);
  return one.keep;
}

std::shared_ptr<const void> loan_book::hand_back(std::uint64_t number, std::uint64_t offset,
                                                 std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto& one = find(number);
  if (one.how != way::handed || offset != one.offset || size != one.size)
    throw decode_error("A note about lent memory hands back bytes that are not those of loan " +
                       std::to_string(number) + ".");
  return remove(one);
}

void loan_book::end(std::uint64_t number, std::uint64_t times_given_back) {
  std::shared_ptr<const void> keep;
  const std::lock_guard lock(mutex_);
  auto& one = find(number);
  if (one.ending || times_given_back < one.given_back)
    throw decode_error("A note about lent memory ends loan " + std::to_string(number) +
                       " twice, or too early.");
  // What is on its way back when the connection ends does not come.
  if (one.given_back == times_given_back || closed_) {
    keep = remove(one);
  } else {
    one.ending = true;
    one.due = times_given_back;
  }
}

void loan_book::close() noexcept {
  std::vector<std::shared_ptr<const void>> kept;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  end_unread(kept);
}

void loan_book::only_read(std::vector<std::uint64_t> loans) noexcept {
  std::vector<std::shared_ptr<const void>> kept;
  std::ranges::sort(loans);
  const std::lock_guard lock(mutex_);
  read_ = std::move(loans);
  end_unread(kept);
}

// As long as there is a connection, messages that end loans may be on their way, and those that
// give some back.
void loan_book::end_unread(std::vector<std::shared_ptr<const void>>& kept) noexcept {
  if (!closed_ || !read_) return;
  try {
    kept.reserve(count_);
  } catch (const std::bad_alloc&) {  // they stay as they are
    return;
  }
  for (std::uint32_t place = 0; place < loans_.size(); ++place) {
    auto& one = loans_[place];
    const auto number = std::uint64_t{one.turn} << 32 | (place + 1);
    if (one.keep && !std::ranges::binary_search(*read_, number)) kept.push_back(remove(one));
  }
}

void loan_book::end_all() noexcept {
  std::vector<loan> all;
  const std::lock_guard lock(mutex_);
  all.swap(loans_);
  free_ = none;
  count_ = 0;
  leases_ = 0;
  bytes_ = 0;
}

std::size_t loan_book::loans() const noexcept {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool loan_book::has_room_for(std::uint64_t size) const noexcept {
  const std::lock_guard lock(mutex_);
  return takes(size);
}

std::size_t loan_book::leases() const noexcept {
  const std::lock_guard lock(mutex_);
  return leases_;
}

std::uint64_t loan_book::bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace troupe::transport::lending
