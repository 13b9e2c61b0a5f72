// The election of a new leader when the leader is lost, if the job's options permit it. Terms and
// sets that always have a member in common are Paxos's ballots and quorums (Lamport, "The part-time
// parliament", 1998); the rule for halves is not. All remaining members are ready before a commit,
// so a follower need not report what it has prepared. docs/membership.md has the proof, and the
// steps, under "Losing the leader".
#include <algorithm>
#include <limits>

#include "troupe/actors/membership/membership.hpp"
#include "troupe/actors/membership/message_codec.hpp"

namespace troupe {

using transport::loss_kind;

std::string membership::cause_of_loss(rank_t rank) const {
  const auto place = lost_.find(rank);
  return place == lost_.end() ? "it was fenced" : place->second.text;
}

// M7: the job ends for this node, or an election begins (M10).
void membership::leader_lost() {
  deposed_ = leader_;
  const auto cause = cause_of_loss(leader_);
  if (!options_.elects) {
    end_without_leader(leader_, cause, "the job ends with it");
  } else if (prepared_ && prepared_->step.removal_of(self_)) {
    end_without_leader(leader_, cause, "this node was about to leave");
  } else {
    look_for_leader();
  }
}

// Step 1, SEEK: the lowest rank that can be reached from here is to stand.
void membership::look_for_leader() {
  pledged_ = false;
  sought_ = self_;
  for (const auto& [rank, who] : view_.members)
    if (rank == self_ || reachable(rank)) {
      sought_ = rank;
      break;
    }
  if (sought_ == self_) return stand();
  role_ = role::seeking;
  heard_leader_ = awake_;
  send(sought_, membership_messages::seek{term_});
}

// Step 1, CANDIDATE: in a term above all that this node knows of (M10).
void membership::stand() {
  seen_term_ = std::max(seen_term_, term_);
  if (seen_term_ == std::numeric_limits<std::uint32_t>::max())
    return end_without_leader(deposed_, cause_of_loss(deposed_), "there are no terms left");
  role_ = role::candidate;
  leader_ = self_;
  pledged_ = true;
  term_ = ++seen_term_;
  heard_leader_ = awake_;
  followers_ = {self_};
  suspicions_.clear();
  // A leader may have admitted them and been lost before it welcomed them.
  for (const auto& who : last_joined_) client_.welcome(who, view_);
  for (const auto rank : peers(true)) canvass(rank);
  count_followers();
}

void membership::canvass(rank_t rank) {
  send(rank, membership_messages::candidate{term_, deposed_, ended_.contains(deposed_)});
}

// Step 2, FOLLOW.
void membership::pledge(rank_t candidate, std::uint32_t term) {
  role_ = role::member;
  term_ = term;
  leader_ = candidate;
  pledged_ = true;
  heard_leader_ = awake_;
  membership_messages::follow message{term, {}};
  for (const auto rank : peers(false)) message.lost.push_back(loss_of(rank));
  send(candidate, message);
}

// Step 1, at the node that is asked to stand: it does once it has lost the leader itself.
void membership::take(rank_t from, const membership_messages::seek& message) {
  if (!options_.elects) return;
  seen_term_ = std::max(seen_term_, message.term);
  const auto* who = peer(from);
  const membership_messages::suspect strayed{from, who->incarnation, loss_kind::broken,
                                             "it follows another leader"};
  switch (role_) {
    case role::leader:
      // It can never follow this leader.
      if (message.term >= term_) suspect(from, who->incarnation, {strayed.kind, strayed.cause});
      break;
    case role::candidate:
      if (message.term >= term_)
        stand();
      else
        canvass(from);
      break;
    case role::member:
      if (message.term >= term_ && from != leader_) send(leader_, strayed);
      break;
    default: break;
  }
}

// Step 2, at a node that is asked to follow.
void membership::take(rank_t from, const membership_messages::candidate& message) {
  if (!options_.elects) return;
  seen_term_ = std::max(seen_term_, message.term);
  const auto* who = peer(from);
  const membership_messages::suspect strayed{from, who->incarnation, loss_kind::broken,
                                             "it has lost the leader"};
  if (role_ == role::leader) return suspect(from, who->incarnation, {strayed.kind, strayed.cause});
  if (message.ended && view_.members.contains(message.deposed) && message.deposed != self_) {
    ended_.insert(message.deposed);
    // The transport of this node will find out too; nothing else can happen.
    if (reachable(message.deposed)) {
      lost_[message.deposed] = {loss_kind::ended, "its process has ended"};
      if (role_ == role::candidate)
        count_followers();
      else
        member_lost(message.deposed);
    }
    if (role_ == role::leader || role_ == role::ended) return;
  }
  if (role_ == role::member && !pledged_) {
    // Only one of the two, the candidate or the leader, can remain in the job: the leader, if it
    // lives, decides.
    send(leader_, strayed);
    return;
  }
  // M12: of two candidates, the one of the lower rank.
  const auto preferred = role_ == role::seeking ? sought_ : leader_;
  if (from > preferred) {
    if (role_ == role::candidate) canvass(from);
    return;
  }
  if (message.term > term_)
    pledge(from, message.term);
  else if (from != leader_ || role_ == role::seeking)
    send(from, membership_messages::seek{term_});
}

// Steps 2 and 3, at the candidate, which may lead already.
void membership::take(rank_t from, const membership_messages::follow& message) {
  if (message.term != term_ || leader_ != self_) return;
  if (role_ == role::leader) {
    for (const auto& lost : message.lost) take(from, lost);
  } else if (role_ == role::candidate) {
    record_suspicions(from, message.lost);
    if (view_.members.contains(from)) followers_.insert(from);
    count_followers();
  }
}

void membership::record_suspicions(rank_t by,
                                   const std::vector<membership_messages::suspect>& lost) {
  for (const auto& what : lost) {
    const auto* who = peer(what.rank);
    if (!who || who->incarnation != what.incarnation) continue;
    if (what.kind == loss_kind::ended) ended_.insert(what.rank);
    suspicions_.try_emplace(what.rank, suspicion{by, what});
  }
}

// Steps 3 and 4, M12: a deciding set has followed, or none can any more.
void membership::count_followers() {
  std::set<rank_t> following, possible;
  for (const auto& [rank, who] : view_.members) {
    if (rank != self_ && !reachable(rank)) continue;
    possible.insert(rank);
    if (followers_.contains(rank)) following.insert(rank);
  }
  if (decides(following)) return win();
  if (2 * possible.size() < view_.members.size() || following == possible)
    end_without_leader(deposed_, cause_of_loss(deposed_),
                       "of " + std::to_string(view_.members.size()) + " members only " +
                           std::to_string(possible.size()) +
                           " can be reached from here, too few to go on");
}

// M11, M12: any two sets of members that decide have a member in common. Half of a view is enough
// without its leader if the leader's process has ended for certain, and with it if the processes of
// all others have.
bool membership::decides(const std::set<rank_t>& present) const {
  const auto total = view_.members.size();
  if (2 * present.size() != total) return 2 * present.size() > total;
  if (!present.contains(view_.leader)) return ended_.contains(view_.leader);
  return std::all_of(view_.members.begin(), view_.members.end(), [&](const auto& x) {
    return present.contains(x.first) || ended_.contains(x.first);
  });
}

// Step 3.
void membership::win() {
  role_ = role::leader;
  pledged_ = false;
  inherited_ = prepared_.has_value();
  if (prepared_) prepared_->term = term_;
  for (auto& [rank, when] : heard_) when = awake_;
  for (const auto rank : peers(false)) {
    const auto loss = loss_of(rank);
    add_suspect(rank, loss.incarnation, {loss.kind, loss.cause});
  }
  for (const auto& [rank, x] : suspicions_)
    if (!removed(x.by)) add_suspect(rank, x.what.incarnation, {x.what.kind, x.what.cause});
  suspicions_.clear();
  if (prepared_)
    propose();
  else
    start_step();
}

// M13, in an election: the node that is waited for hangs.
void membership::tick_election() {
  if (awake_ - heard_leader_ < options_.hang_limit) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.hang_limit);
  const auto passed = std::to_string(ms.count()) + " ms";
  if (role_ == role::candidate)
    return end_without_leader(deposed_, cause_of_loss(deposed_),
                              "too few members have followed this node within " + passed);
  const auto* who = peer(sought_);
  if (!who) return;
  lost_[sought_] = {loss_kind::broken, "it has not stood for leader within " + passed};
  fence(*who, lost_[sought_].text);
  look_for_leader();
}

}  // namespace troupe
