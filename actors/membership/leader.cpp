// The leader: it makes one step at a time, and commits it when all nodes that remain are ready.
#include <algorithm>
#include <utility>

#include "troupe/actors/membership/membership.hpp"
#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/messages/base/worker_name.hpp"

namespace troupe {

using transport::loss_kind;

// M4.
void membership::take(rank_t from, const membership_messages::ready& message) {
  if (role_ != role::leader || !prepared_ || message.term != term_ || !awaited(from)) return;
  if (message.epoch != prepared_->step.epoch || message.attempt != prepared_->attempt) return;
  ready_.insert(from);
  commit_if_ready();
}

void membership::take(rank_t from, const membership_messages::suspect& message) {
  if (role_ == role::leader) {
    // M6: the first suspicion wins; suspicions of nodes that are being removed are ignored.
    if (!removed(from) && !leaves(message.rank))
      suspect(message.rank, message.incarnation,
              {message.kind, message.cause + " (as " + name_of(from) + " has found)"});
  } else if (role_ == role::candidate) {
    record_suspicions(from, {message});
  }
}

// M8: the step that removes it may be the next one.
void membership::take(rank_t from, const membership_messages::leave&) {
  if (role_ != role::leader || removed(from) || !view_.members.contains(from)) return;
  for (const auto& change : waiting_)
    if (change.removes() && change.who.rank == from) return;
  auto who = view_.members.at(from);
  who.address.clear();
  waiting_.push_back({membership_change::kind::left, std::move(who), ""});
  start_step();
}

void membership::take(rank_t, const membership_messages::pong&) {}

// Does it leave of its own accord by the step in hand? Then the others close their connections to
// it.
bool membership::leaves(rank_t rank) const {
  const auto* out = prepared_ ? prepared_->step.removal_of(rank) : nullptr;
  return out && out->what == membership_change::kind::left;
}

// Is it removed by the step in hand or the next one?
bool membership::removed(rank_t rank) const {
  return suspects_.contains(rank) || (prepared_ && prepared_->step.removal_of(rank));
}

// Must it be ready before a commit? Nodes that leave as well, as long as they can be reached.
bool membership::awaited(rank_t rank) const {
  return rank != self_ && view_.members.contains(rank) && !suspects_.contains(rank) &&
         reachable(rank);
}

// Fences a suspect and enters it for removal by the step in hand, or the next one. True: something
// has changed.
bool membership::add_suspect(rank_t rank, std::uint64_t incarnation,
                             const transport::peer_loss& why) {
  const auto* who = peer(rank);
  if (!who || rank == self_ || who->incarnation != incarnation) return false;
  if (why.kind == loss_kind::ended) ended_.insert(rank);
  const auto cause = cut_cause(why.text);
  if (fenced_.contains(rank) && removed(rank)) return false;
  send(rank, membership_messages::fenced{view_.epoch, cause});
  member gone = *who;
  gone.address.clear();
  fence(gone, cause);
  // One that is being removed already is just not waited for any more.
  if (removed(rank)) return true;
  suspects_[rank] = cause;
  std::erase_if(waiting_, [&](const auto& x) { return x.removes() && x.who.rank == rank; });
  if (prepared_ && !inherited_)
    prepared_->step.changes.push_back({membership_change::kind::died, std::move(gone), cause});
  return true;
}

void membership::suspect(rank_t rank, std::uint64_t incarnation, const transport::peer_loss& why) {
  if (!add_suspect(rank, incarnation, why)) return;
  if (prepared_)
    propose();
  else
    start_step();
}

bool membership::drop_joiner(rank_t rank, std::uint64_t incarnation, const std::string& cause) {
  const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& change) {
    return !change.removes() && change.who.rank == rank && change.who.incarnation == incarnation;
  });
  if (place == waiting_.end()) return false;
  const auto who = std::move(place->who);
  waiting_.erase(place);
  refuse(who, cause);
  return true;
}

void membership::refuse(const member& who, const std::string& cause) {
  fault why;
  why.code = errc::peer_lost;
  why.text = describe(who) + " was lost before it was admitted: " + cause;
  why.node = worker_names(who.name).front();
  client_.refused(who, why);
}

std::string membership::refusal_of(const join_request& request, errc& code) const {
  code = errc::invalid_argument;
  if (role_ == role::ended) return "this node is not in the job any more";
  if (role_ != role::leader)
    return name_of(self_) + " does not lead the job and cannot admit anybody: ask " +
           name_of(leader_);
  if (request.name.empty() || request.name.size() > max_member_name)
    return "a member's name has 1 to " + std::to_string(max_member_name) + " bytes, not " +
           std::to_string(request.name.size());
  if (request.address.size() > max_member_address)
    return "the address of '" + request.name + "' has " + std::to_string(request.address.size()) +
           " bytes; the most is " + std::to_string(max_member_address);
  code = errc::rendezvous_error;
  for (const auto& [rank, who] : view_.members) {
    if (removed(rank)) continue;
    if (request.rank == rank) return describe(who) + " is alive: nobody else can have its rank";
    if (share_worker_name(who.name, request.name))
      return describe(who) + " is alive: nobody else can have its name";
  }
  auto joiners = waiting_;
  if (prepared_)
    for (const auto& change : prepared_->step.changes)
      if (!removed(change.who.rank)) joiners.push_back(change);
  for (const auto& change : joiners) {
    if (change.removes()) continue;
    if (request.rank == change.who.rank)
      return describe(change.who) + " is about to have this rank";
    if (share_worker_name(request.name, change.who.name))
      return describe(change.who) + " is about to have this name";
  }
  return "";
}

// M9: never one that was used, or that an earlier leader may have promised. Each term has its own
// range.
std::uint64_t membership::next_incarnation(rank_t rank) const {
  std::uint64_t last = 0;
  if (const auto place = view_.gone.find(rank); place != view_.gone.end()) last = place->second;
  if (const auto* who = peer(rank)) last = who->incarnation;
  if (const auto place = given_.find(rank); place != given_.end())
    last = std::max(last, place->second);
  return std::max(last + 1, std::uint64_t{term_} << 32);
}

std::variant<member, fault> membership::admit(const join_request& request, clock::time_point now) {
  advance(now);
  fault why;
  why.text = refusal_of(request, why.code);
  if (!why.text.empty()) return why;
  member who{0, 0, request.name, request.address};
  const auto taken = [&](rank_t rank) {
    return view_.gone.contains(rank) || peer(rank) ||
           std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const auto& change) { return change.who.rank == rank; });
  };
  if (request.rank)
    who.rank = *request.rank;
  else
    while (taken(who.rank)) ++who.rank;
  who.incarnation = next_incarnation(who.rank);
  given_[who.rank] = who.incarnation;
  waiting_.push_back({membership_change::kind::joined, who, ""});
  start_step();
  return who;
}

std::optional<fault> membership::leave(clock::time_point now) {
  advance(now);
  if (role_ == role::ended) {
    fault why;
    why.code = errc::peer_lost;
    why.text = "the job has ended for " + name_of(self_) + ", which can no longer leave it";
    return why;
  }
  if (leaving_) return {};
  if (role_ != role::leader) {
    leaving_ = true;
    if (role_ == role::member && !pledged_) send(leader_, membership_messages::leave{});
    return {};
  }
  if (view_.members.size() > 1 || prepared_ || !waiting_.empty()) {
    fault why;
    why.code = errc::invalid_argument;
    why.text = name_of(self_) + " leads the job: it can only leave when the others have left";
    return why;
  }
  leave_last();
  return {};
}

void membership::leave_last() {
  role_ = role::ended;
  client_.left();
}

// Begins the next step if there is none in hand and something to do.
void membership::start_step() {
  if (role_ != role::leader || prepared_) return;
  membership_step step{view_.epoch + 1, term_, self_, {}};
  for (const auto& [rank, cause] : suspects_) {
    auto who = view_.members.at(rank);
    who.address.clear();
    step.changes.push_back({membership_change::kind::died, std::move(who), cause});
  }
  // A rank whose last member is still being removed waits for one step more.
  std::vector<membership_change> later;
  for (auto& change : std::exchange(waiting_, {})) {
    auto& to = !change.removes() && view_.members.contains(change.who.rank) ? later : step.changes;
    to.push_back(std::move(change));
  }
  waiting_ = std::move(later);
  if (step.changes.empty()) {
    // M8: it was elected after it had asked to leave.
    if (leaving_ && view_.members.size() == 1) leave_last();
    return;
  }
  inherited_ = false;
  take_up(std::move(step), term_, 0);
  propose();
}

// M4: the next attempt at the step in hand; all have to get ready anew.
void membership::propose() {
  if (role_ != role::leader) return;
  ready_.clear();
  ++prepared_->attempt;
  if (options_.elects) {
    std::set<rank_t> present{self_};
    for (const auto& [rank, who] : view_.members)
      if (awaited(rank)) present.insert(rank);
    if (!decides(present)) {
      end(errc::peer_lost, name_of(self_) + " led the job and has lost too many of its members: " +
                               std::to_string(present.size()) + " of " +
                               std::to_string(view_.members.size()) +
                               " are left, and the others may elect another leader");
      return;
    }
  }
  membership_messages::prepare message{term_, prepared_->attempt, prepared_->step, {}};
  for (const auto& [rank, cause] : suspects_)
    if (!prepared_->step.removal_of(rank) && peer(rank)) {
      auto who = *peer(rank);
      who.address.clear();
      message.suspects.push_back({membership_change::kind::died, std::move(who), cause});
    }
  std::vector<rank_t> to;
  for (const auto& [rank, who] : view_.members)
    if (awaited(rank)) to.push_back(rank);
  for (const auto rank : to) send(rank, message);
  commit_if_ready();
}

// M4, M5: COMMIT once all are ready for the last attempt; joiners are members from here on.
void membership::commit_if_ready() {
  std::set<rank_t> participants;
  for (const auto& [rank, who] : view_.members)
    if (awaited(rank)) {
      if (!ready_.contains(rank)) return;
      participants.insert(rank);
    }
  const auto step = prepared_->step;
  announce_commit(step, participants);
  apply_prepared();
  for (const auto& change : step.changes) {
    if (change.removes()) continue;
    const auto rank = change.who.rank;
    const auto* death = step.removal_of(rank);
    if (!death && !suspects_.contains(rank))
      client_.welcome(change.who, view_);
    else
      refuse(change.who, death ? death->cause : suspects_.at(rank));
  }
  start_step();
}

// M5; M8: whoever leaves gets its LEAVE_NOTICE after the commit.
void membership::announce_commit(const membership_step& step,
                                 const std::set<rank_t>& participants) {
  for (const auto rank : participants)
    if (!step.removal_of(rank))
      send(rank, membership_messages::commit{term_, step.epoch, prepared_->attempt});
  for (const auto& change : step.changes) {
    if (change.what != membership_change::kind::left) continue;
    send(change.who.rank, membership_messages::leave_notice{step.epoch});
    fence(change.who, "it has left");
  }
}

// M13.
void membership::tick_leader() {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.hang_limit);
  const transport::peer_loss hung{
      loss_kind::broken,
      "it has not answered for " + std::to_string(ms.count()) + " ms though its connection lives"};
  std::vector<member> silent;
  for (const auto rank : peers(true)) {
    const auto place = view_.members.find(rank);
    if (place == view_.members.end()) continue;
    if (awake_ - heard_[rank] >= options_.hang_limit)
      silent.push_back(place->second);
    else
      send(rank, membership_messages::ping{term_});
  }
  bool news = false;
  for (const auto& who : silent) news = add_suspect(who.rank, who.incarnation, hung) || news;
  if (!news) return;
  if (prepared_)
    propose();
  else
    start_step();
}

}  // namespace troupe
