#include "troupe/actors/groups/network/group_channel.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/remote/remote_actors.hpp"

namespace troupe::groups::network {

namespace {

// A failure that another rank has noticed, as an exception of the class that it was there.
std::exception_ptr reported(fault why, const std::string& by) {
  why.text = fmt::format("{} has reported: {}", by, why.text);
  switch (why.code) {
    case errc::rpc_timeout: return std::make_exception_ptr(collective_timeout(std::move(why)));
    case errc::invalid_argument:
      return std::make_exception_ptr(collective_mismatch(std::move(why)));
    case errc::cancelled: return std::make_exception_ptr(group_failed(std::move(why)));
    default: return to_exception(std::move(why));
  }
}

}  // namespace

// FNV-1a.
std::uint64_t group_id(const std::string& name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

group_channel::group_channel(std::shared_ptr<remote_actors> actors, std::shared_ptr<engine> driver,
                             std::string name, std::vector<peer*> members, int rank)
    : actors_(std::move(actors)),
      driver_(std::move(driver)),
      name_(std::move(name)),
      id_(group_id(name_)),
      members_(std::move(members)),
      rank_(rank),
      parts_(driver_, size()),
      letters_(size()),
      left_(members_.size()) {}

namespace {

// What has been lost is a node, which has another number than its rank in the group.
peer_lost loss_of(int rank, fault why) {
  why.text = fmt::format("rank {} is lost: {}", rank, why.text);
  return peer_lost(std::move(why));
}

}  // namespace

template <class Body>
void group_channel::send_to(int to, Body&& what) {
  auto& there = *members_.at(static_cast<std::size_t>(to));
  if (!there.live()) throw loss_of(to, there.loss());
  const group_message message{id_, rank_, to, std::forward<Body>(what)};
  bool sent = false;
  try {
    // One order for each group: its messages arrive as they were sent.
    sent = actors_->out().send_control(there, groups_channel, id_ | 1,
                                       [&](encoder& out) { write_message(out, message); });
  } catch (const peer_lost& e) {
    throw loss_of(to, e.fault());
  }
  if (!sent) throw not_initialized("the node has been shut down");
}

template <class Body>
void group_channel::send_to_all(const Body& what) noexcept {
  for (int to = 0; to < size(); ++to) {
    if (to == rank_) continue;
    try {
      send_to(to, what);
    } catch (const std::exception&) {
      // It is lost, and needs no notice.
    }
  }
}

void group_channel::send(int to, part what) { send_to(to, std::move(what)); }
void group_channel::send(int to, letter what) { send_to(to, std::move(what)); }
void group_channel::send_failure(const fault& why) noexcept { send_to_all(failure_notice{why}); }
void group_channel::send_leave(std::uint64_t last) noexcept { send_to_all(leave_notice{last}); }

void group_channel::accept(group_message&& message, const peer& from) {
  const auto rank = message.from;
  if (rank < 0 || rank >= size() || rank == rank_ || &member(rank) != &from)
    throw decode_error(fmt::format("{} is not rank {} of group '{}'", from.info.name, rank, name_));
  if (auto* one = std::get_if<part>(&message.what)) {
    parts_.put({one->sequence, one->stage, rank}, std::move(one->content));
  } else if (auto* mail = std::get_if<letter>(&message.what)) {
    letters_.put(std::move(*mail));
  } else if (auto* notice = std::get_if<failure_notice>(&message.what)) {
    fail(reported(std::move(notice->why), fmt::format("rank {}", rank)));
  } else {
    const auto why = std::make_exception_ptr(
        group_failed(fmt::format("rank {} has destroyed group '{}'", rank, name_)));
    {
      const auto last = std::get<leave_notice>(message.what).last;
      const std::lock_guard lock(mutex_);
      left_[static_cast<std::size_t>(rank)] = why;
      if (last < fewest_) {
        fewest_ = last;
        who_left_ = why;
      }
    }
    parts_.leave(rank, why);
    letters_.leave(rank, why);
  }
}

void group_channel::evict(const peer& whom) noexcept {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || &member(rank) != &whom) continue;
    fail(std::make_exception_ptr(loss_of(rank, whom.loss())));
  }
}

// What is notified may fail it again, so it holds no lock meanwhile.
void group_channel::fail(std::exception_ptr why) noexcept {
  std::function<void(const std::exception_ptr&)> notify;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
    notify = notify_;
  }
  parts_.fail(why);
  letters_.fail(why);
  if (notify) notify(why);
}

void group_channel::watch(std::function<void(const std::exception_ptr&)> notify) {
  std::exception_ptr why;
  {
    const std::lock_guard lock(mutex_);
    notify_ = notify;
    why = failure_;
  }
  if (why && notify) notify(why);
}

std::exception_ptr group_channel::lacks(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  return sequence > fewest_ ? who_left_ : nullptr;
}

std::exception_ptr group_channel::left(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_.at(static_cast<std::size_t>(rank));
}

std::exception_ptr group_channel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace troupe::groups::network
