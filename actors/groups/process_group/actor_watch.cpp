#include "troupe/actors/groups/process_group/actor_watch.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <caf/abstract_actor.hpp>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::groups {

namespace {

void fail_by_end(group_core& group, const peer& home, caf::actor_id who, const fault& reason) {
  fault why;
  why.code = reason.code == errc::peer_lost ? errc::peer_lost : errc::actor_down;
  why.node = home.info.name;
  const auto& members = group.about().members;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (members[rank].node == home.rank() && members[rank].actor == who)
      why.text = fmt::format("rank {} of group '{}', actor {} on {}, has ended: {}", rank,
                             group.about().name, who, home.info.name, reason.text);
  group.fail(to_exception(std::move(why)));
}

fault reason_of(const caf::error& reason) {
  if (reason) return to_fault(reason);
  fault out;
  out.text = "it has quit";
  return out;
}

}  // namespace

// Under the lock. Costs a constant time for each actor: the next one is far.
void actor_watch::trim() {
  if (all_.size() < trimmed_at_) return;
  std::erase_if(all_, [](auto& one) {
    auto& [who, about] = one;
    std::erase_if(about->groups, [](const auto& group) { return group.expired(); });
    return about->ended && about->groups.empty() && about.use_count() == 1;
  });
  trimmed_at_ = std::max(fewest_trimmed, 2 * all_.size());
}

std::size_t actor_watch::size() {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

// Attaching may call `end` at once, so this holds no lock meanwhile.
actor_watch::watched actor_watch::watch(const peer& home, const caf::strong_actor_ptr& who) {
  const key name(&home, who->id());
  watched out;
  {
    const std::lock_guard lock(mutex_);
    trim();
    auto& one = all_[name];
    if (one) return one;
    one = std::make_shared<entry>();
    out = one;
  }
  who->get()->attach_functor([weak = weak_from_this(), name](const caf::error& reason) {
    if (const auto self = weak.lock()) self->end(name, reason);
  });
  return out;
}

void actor_watch::add(const peer& home, caf::actor_id who,
                      const std::shared_ptr<group_core>& group) {
  std::optional<fault> ended;
  {
    const std::lock_guard lock(mutex_);
    auto& one = all_[{&home, who}];
    if (!one) one = std::make_shared<entry>();
    ended = one->ended;
    std::erase_if(one->groups, [](const auto& old) { return old.expired(); });
    one->groups.push_back(group);
  }
  if (ended) fail_by_end(*group, home, who, *ended);
}

// On the thread on which the actor ends, or which has learnt of it.
void actor_watch::end(const key& who, const caf::error& reason) noexcept {
  try {
    const auto why = reason_of(reason);
    std::vector<std::weak_ptr<group_core>> groups;
    {
      const std::lock_guard lock(mutex_);
      auto& one = all_[who];
      if (!one) one = std::make_shared<entry>();
      one->ended = why;
      groups = one->groups;
    }
    for (const auto& weak : groups)
      if (const auto group = weak.lock()) fail_by_end(*group, *who.first, who.second, why);
  } catch (const std::exception& e) {
    log().error("the groups of actor {} were not told of its end: {}", who.second, e.what());
  }
}

}  // namespace troupe::groups
