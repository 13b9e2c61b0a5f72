#include "troupe/actors/groups/network/endpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/network/eviction.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/decoder.hpp"

namespace troupe::groups::network {

namespace {

std::size_t size_of(const group_message& message) {
  std::size_t size = 256;  // of what keeps it
  if (const auto* one = std::get_if<part>(&message.what)) size += one->content.size();
  if (const auto* one = std::get_if<letter>(&message.what)) size += one->content.size();
  return size;
}

}  // namespace

// Under the lock.
bool endpoint::was_opened(const place& where, bool alone) const {
  if (!alone) return open_.contains(where) || over_.contains(where);
  const place first(where.first, 0);
  const auto open = open_.lower_bound(first);
  const auto over = over_.lower_bound(first);
  return (open != open_.end() && open->first.first == where.first) ||
         (over != over_.end() && over->first == where.first);
}

// `group` as people know it: its name is not known before it is opened.
std::exception_ptr endpoint::refusal(const peer& from, const std::string& group) const {
  return std::make_exception_ptr(group_failed(fmt::format(
      "{} has sent more to {} than can wait until this node opens it: {} bytes, for all groups "
      "together",
      from.info.name, group, most_early_bytes_)));
}

// Under the lock. Returns all who have sent to this group, which fails when it is opened.
endpoint::senders endpoint::refuse(const place& where, const group_message& message, peer& from) {
  senders out{{message.from, &from}};
  refused_.emplace(where, &from);
  if (auto waiting = early_.extract(where))
    for (const auto& one : waiting.mapped()) {
      early_bytes_ -= one.bytes;
      out.emplace(one.what.from, one.from);
    }
  return out;
}

// Those who have sent hear at once that the group has failed.
void endpoint::tell_refused(const senders& all, const group_message& message, const peer& from) {
  const auto why = describe(refusal(from, "this group"), {}, {});
  log().warn("rank {} of a group that is not open here has failed: {}", message.to, why.text);
  for (const auto& [rank, whom] : all) {
    const group_message notice{message.group, message.to, rank, failure_notice{why}};
    try {
      actors_->out().send_control(*whom, groups_channel, message.group | 1,
                                  [&](encoder& out) { write_message(out, notice); });
    } catch (const std::exception&) {
      // It is lost, and needs no notice.
    }
  }
}

std::shared_ptr<group_channel> endpoint::open(const std::string& name, std::vector<peer*> members,
                                              int rank, bool alone) {
  const auto made =
      std::make_shared<group_channel>(actors_, driver_, name, std::move(members), rank);
  const peer* refused = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw not_initialized("the node has been shut down");
    const auto here = place_of(*made);
    if (was_opened(here, alone))
      throw invalid_argument(
          alone ? fmt::format("this node has, or had, a group '{}' already", name)
                : fmt::format("rank {} is in group '{}' already, or was: a group is joined once",
                              rank, name));
    // Under the lock: what comes next must not pass what has come.
    if (auto waiting = early_.extract(here))
      for (auto& one : waiting.mapped()) {
        early_bytes_ -= one.bytes;
        try {
          made->accept(std::move(one.what), *one.from);
        } catch (const std::exception& e) {
          log().warn("dropped a message for group '{}': {}", name, e.what());
        }
      }
    if (const auto found = refused_.extract(here)) refused = found.mapped();
    open_.emplace(here, made);
  }
  if (refused) {
    const auto why = refusal(*refused, fmt::format("group '{}'", name));
    made->fail(why);
    made->send_failure(describe(why, {}, {}));
  }
  // Those that were lost before: `evict` did not find the group.
  for (int other = 0; other < made->size(); ++other)
    if (other != rank && !made->member(other).live()) made->evict(made->member(other));
  return made;
}

void endpoint::close(const group_channel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  const auto where = place_of(channel);
  if (open_.erase(where) > 0) over_.insert(where);
}

void endpoint::deliver(decoder& body, peer& from) {
  auto message = read_message(body);
  body.let_tensors_go();
  std::shared_ptr<group_channel> to;
  senders refused;
  {
    const std::lock_guard lock(mutex_);
    const place where(message.group, message.to);
    if (over_.contains(where)) return;
    const auto found = open_.find(where);
    if (found == open_.end()) {
      if (refused_.contains(where)) return;
      const auto size = size_of(message);
      if (early_bytes_ + size <= most_early_bytes_) {
        early_bytes_ += size;
        early_[where].push_back({&from, size, std::move(message)});
        return;
      }
      refused = refuse(where, message, from);
    } else {
      to = found->second;
    }
  }
  if (!to) return tell_refused(refused, message, from);
  to->accept(std::move(message), from);
}

void endpoint::evict(const peer& whom) noexcept {
  std::vector<std::shared_ptr<group_channel>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [where, one] : open_) all.push_back(one);
    // A group with it fails when it is made here.
    for (auto& [where, waiting] : early_)
      std::erase_if(waiting, [&](const auto& one) {
        if (one.from != &whom) return false;
        early_bytes_ -= one.bytes;
        return true;
      });
  }
  const eviction under_way;
  for (const auto& one : all) one->evict(whom);
}

void endpoint::close() noexcept {
  std::map<place, std::shared_ptr<group_channel>> all;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    all.swap(open_);
    early_.clear();
    refused_.clear();
    early_bytes_ = 0;
  }
  const auto why = std::make_exception_ptr(not_initialized("the node has been shut down"));
  for (const auto& [where, one] : all) one->fail(why);
}

}  // namespace troupe::groups::network
