#include "troupe/actors/membership/membership.hpp"

#include <algorithm>
#include <utility>

#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/messages/base/worker_name.hpp"

namespace troupe {

namespace {

using namespace std::chrono_literals;

std::chrono::nanoseconds interval_of(std::chrono::nanoseconds hang_limit) {
  return std::min<std::chrono::nanoseconds>(hang_limit / 4, 5s);
}

}  // namespace

membership::membership(membership_view start, rank_t self, membership_options options,
                       membership_callbacks& client)
    : view_(std::move(start)),
      self_(self),
      options_(options),
      client_(client),
      role_(view_.leader == self ? role::leader : role::member),
      term_(view_.term),
      leader_(view_.leader),
      seen_term_(view_.term),
      interval_(interval_of(options.hang_limit)) {
  for (const auto& [rank, who] : view_.members) heard_[rank] = awake_;
}

void membership::receive(rank_t from, const membership_message& message, clock::time_point now) {
  advance(now);
  if (role_ == role::ended || from == self_ || !peer(from) || !reachable(from)) return;
  heard_[from] = awake_;
  if (from == leader_) heard_leader_ = awake_;
  std::visit([&](const auto& x) { take(from, x); }, message);
}

void membership::lost(rank_t rank, std::uint64_t incarnation, const transport::peer_loss& why,
                      clock::time_point now) {
  advance(now);
  if (role_ == role::ended || rank == self_) return;
  if (role_ == role::leader && drop_joiner(rank, incarnation, why.text)) return;
  const auto* who = peer(rank);
  if (!who || who->incarnation != incarnation || !reachable(rank)) return;
  lost_[rank] = {why.kind, cut_cause(why.text)};
  if (why.kind == transport::loss_kind::ended) ended_.insert(rank);
  switch (role_) {
    case role::leader: suspect(rank, incarnation, lost_[rank]); break;
    case role::candidate: count_followers(); break;
    default: member_lost(rank);
  }
}

// A member, or one that joins by the step that is being prepared.
const member* membership::peer(rank_t rank) const {
  const auto place = view_.members.find(rank);
  if (place != view_.members.end()) return &place->second;
  const auto* joining = prepared_ ? prepared_->step.joining_of(rank) : nullptr;
  return joining ? &joining->who : nullptr;
}

bool membership::reachable(rank_t rank) const {
  return !lost_.contains(rank) && !fenced_.contains(rank);
}

std::vector<transport::rank_t> membership::peers(bool reached) const {
  std::vector<rank_t> out;
  const auto add = [&](rank_t rank) {
    if (rank != self_ && reachable(rank) == reached) out.push_back(rank);
  };
  for (const auto& [rank, who] : view_.members) add(rank);
  if (prepared_)
    for (const auto& change : prepared_->step.changes)
      if (!change.removes()) add(change.who.rank);
  return out;
}

void membership::send(rank_t to, const membership_message& message) {
  if (reachable(to)) client_.send(to, message);
}

// M3: nothing more of `who` is taken in.
void membership::fence(const member& who, const std::string& cause) {
  const member copy = who;
  if (!fenced_.insert(copy.rank).second) return;
  fault why;
  why.code = errc::peer_lost;
  why.text = text_of_removal(copy, cause);
  why.node = worker_names(copy.name).front();
  client_.fence(copy, why);
}

void membership::fence_suspects(const std::vector<membership_change>& suspects) {
  for (const auto& change : suspects) {
    const auto* who = peer(change.who.rank);
    if (who && who->rank != self_ && who->incarnation == change.who.incarnation)
      fence(*who, change.cause);
  }
}

// Does what a step asks of the nodes that remain. An attempt that replaces another leader's may
// lack joiners of that one: these are fenced, and forgotten.
void membership::take_up(membership_step step, std::uint32_t term, std::uint32_t attempt) {
  const auto before = std::exchange(prepared_, prepared{std::move(step), term, attempt});
  const auto& now = prepared_->step;
  const auto same = [](const membership_change* x, const member& who) {
    return x && x->who.incarnation == who.incarnation;
  };
  if (before)
    for (const auto& change : before->step.changes) {
      const auto& who = change.who;
      if (change.removes() || same(now.joining_of(who.rank), who)) continue;
      fence(who, "its join was not completed");
      fenced_.erase(who.rank);
      lost_.erase(who.rank);
      dropped_.emplace(who.rank, who.incarnation);
    }
  for (const auto& change : now.changes) {
    const auto& who = change.who;
    if (who.rank == self_) continue;
    if (change.what == membership_change::kind::joined) {
      const bool known = before && same(before->step.joining_of(who.rank), who);
      if (known || now.removal_of(who.rank)) continue;
      if (!dropped_.contains({who.rank, who.incarnation})) {
        client_.connect(who);
        continue;
      }
      // A fenced incarnation stays fenced.
      fenced_.insert(who.rank);
      send(leader_, loss_of(who.rank));
    } else if (change.what == membership_change::kind::died) {
      fence(who, change.cause);
    } else if (role_ != role::leader) {
      fence(who, {});
    }
  }
}

// M5: puts the step in force.
void membership::apply_prepared() {
  const auto step = std::exchange(prepared_, std::nullopt)->step;
  view_.apply(step);
  const auto is_gone = [&](rank_t rank) { return !view_.members.contains(rank); };
  std::erase_if(lost_, [&](const auto& x) { return is_gone(x.first); });
  std::erase_if(suspects_, [&](const auto& x) { return is_gone(x.first); });
  std::erase_if(suspicions_, [&](const auto& x) { return is_gone(x.first); });
  std::erase_if(heard_, [&](const auto& x) { return is_gone(x.first); });
  std::erase_if(fenced_, is_gone);
  std::erase_if(ended_, is_gone);
  std::erase_if(followers_, is_gone);
  dropped_.clear();
  last_joined_.clear();
  for (const auto& change : step.changes)
    if (!change.removes() && !is_gone(change.who.rank)) {
      last_joined_.push_back(change.who);
      heard_[change.who.rank] = awake_;
    }
  client_.apply(step.changes, view_);
}

void membership::end(errc code, const std::string& text) {
  if (role_ == role::ended) return;
  role_ = role::ended;
  fault why;
  why.code = code;
  why.text = text;
  client_.ended(why);
}

void membership::end_without_leader(rank_t leader, const std::string& cause,
                                    const std::string& so) {
  if (role_ == role::ended) return;
  role_ = role::ended;
  fault why;
  why.code = errc::peer_lost;
  why.text = name_of(leader) + ", which led the job, was lost: " + cause + "; " + so;
  if (const auto* who = peer(leader)) why.node = worker_names(who->name).front();
  client_.ended(why);
}

std::string membership::name_of(rank_t rank) const {
  const auto* who = peer(rank);
  return who ? describe(*who) : "rank " + std::to_string(rank);
}

// M14: a node that was stopped does not mistake its own pause for silence of the others.
void membership::advance(clock::time_point now) {
  if (last_time_ && now > *last_time_) awake_ += std::min<duration>(now - *last_time_, interval_);
  if (!last_time_ || now > *last_time_) last_time_ = now;
}

clock::time_point membership::tick(clock::time_point now) {
  advance(now);
  if (role_ == role::ended || options_.hang_limit.count() <= 0) return never;
  if (now >= next_tick_) {
    next_tick_ = now < never - interval_ ? now + interval_ : never;
    switch (role_) {
      case role::leader: tick_leader(); break;
      case role::member: tick_member(); break;
      default: tick_election();
    }
  }
  return role_ == role::ended ? never : next_tick_;
}

}  // namespace troupe
