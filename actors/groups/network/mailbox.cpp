#include "troupe/actors/groups/network/mailbox.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "troupe/actors/scheduler/lent_thread.hpp"

namespace troupe::groups::network {

// The wait is shared: its thread may go on, and return, before `finish` does.
void mailbox::end_wait() {
  if (auto ends = std::exchange(waiting_, nullptr)) driver_->finish(ends->over);
}

std::exception_ptr mailbox::failure_of(int rank) const {
  if (failure_) return failure_;
  return left_.at(static_cast<std::size_t>(rank));
}

void mailbox::put(const part_key& key, packet&& content) {
  const std::lock_guard lock(mutex_);
  if (forgotten_ > 0 && key.sequence <= forgotten_ && key.stage == forgotten_stage_) return;
  if (!arrived_.emplace(key, std::move(content)).second)
    throw decode_error(fmt::format("rank {} has sent stage {} of collective {} twice", key.from,
                                   key.stage, key.sequence));
  if (waiting_ && waiting_->key == key) end_wait();
}

std::optional<packet> mailbox::take(const part_key& key, clock::time_point deadline) {
  for (;;) {
    std::shared_ptr<wait> mine;
    {
      const std::lock_guard lock(mutex_);
      if (auto found = arrived_.extract(key)) return std::move(found.mapped());
      if (auto why = failure_of(key.from)) std::rethrow_exception(std::move(why));
      mine = waiting_ = std::make_shared<wait>();
      mine->key = key;
    }
    const lent_thread lent;
    if (!driver_->wait(mine->over, deadline)) break;
  }
  // It may have come with the deadline.
  const std::lock_guard lock(mutex_);
  if (auto found = arrived_.extract(key)) return std::move(found.mapped());
  return std::nullopt;
}

std::optional<packet> mailbox::take_if_there(const part_key& key) {
  const std::lock_guard lock(mutex_);
  if (auto found = arrived_.extract(key)) return std::move(found.mapped());
  return std::nullopt;
}

std::vector<int> mailbox::missing(std::uint64_t sequence, std::uint32_t stage, int self,
                                  int first) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> out;
  for (int rank = first; rank < static_cast<int>(left_.size()); ++rank)
    if (rank != self && !arrived_.contains({sequence, stage, rank})) out.push_back(rank);
  return out;
}

void mailbox::forget(std::uint64_t sequence, std::uint32_t stage) {
  const std::lock_guard lock(mutex_);
  forgotten_ = sequence;
  forgotten_stage_ = stage;
  for (auto at = arrived_.begin(); at != arrived_.end() && at->first.sequence <= sequence;)
    at = at->first.stage == stage ? arrived_.erase(at) : std::next(at);
}

void mailbox::fail(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(why);
  end_wait();
}

void mailbox::leave(int rank, std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  auto& left = left_.at(static_cast<std::size_t>(rank));
  if (!left) left = std::move(why);
  if (waiting_ && waiting_->key.from == rank) end_wait();
}

}  // namespace troupe::groups::network
