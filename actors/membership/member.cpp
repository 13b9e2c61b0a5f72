// A member: it follows the leader's messages.
#include "troupe/actors/membership/membership.hpp"
#include "troupe/actors/membership/message_codec.hpp"

namespace troupe {

// M4, M5: fences and connects, as PREPARE asks, and answers READY. Applies nothing of this step.
void membership::take(rank_t from, const membership_messages::prepare& message) {
  if (role_ == role::leader) return;
  if (message.term < term_) {
    if (options_.elects) send(from, membership_messages::seek{term_});
    return;
  }
  const auto& step = message.step;
  const auto* own = step.removal_of(self_);
  if (own && !(leaving_ && own->what == membership_change::kind::left)) return;
  if (message.term > term_) {
    if (!options_.elects) return;
    adopt(from, message.term);
  } else if (from != leader_) {
    return;
  } else if (pledged_) {
    confirm_leader();
  }
  // M11: a leader that proposes the step after the prepared one has seen that one committed.
  const bool after = prepared_ && step.epoch != 0 && step.epoch - 1 == prepared_->step.epoch;
  if (after) apply_prepared();
  if (step.epoch != view_.epoch) {
    if (!view_.takes(step)) return;
    if (prepared_ && prepared_->term == message.term && prepared_->attempt >= message.attempt)
      return;
    take_up(step, message.term, message.attempt);
  }
  fence_suspects(message.suspects);
  send(from, membership_messages::ready{message.term, step.epoch, message.attempt});
}

// M5.
void membership::take(rank_t from, const membership_messages::commit& message) {
  if (from != leader_ || message.term != term_ || role_ != role::member) return;
  if (prepared_ && prepared_->term == message.term && prepared_->step.epoch == message.epoch &&
      prepared_->attempt == message.attempt)
    apply_prepared();
}

// M13.
void membership::take(rank_t from, const membership_messages::ping& message) {
  if (from == leader_ && message.term == term_ && role_ == role::member)
    send(from, membership_messages::pong{});
}

// M8.
void membership::take(rank_t from, const membership_messages::leave_notice&) {
  if (from != leader_ || !leaving_ || role_ != role::member) return;
  role_ = role::ended;
  client_.left();
}

// M7.
void membership::take(rank_t from, const membership_messages::fenced& message) {
  if (role_ == role::leader || (from != leader_ && !options_.elects)) return;
  end(errc::fenced, name_of(self_) + " was fenced by " + name_of(from) + " in epoch " +
                        std::to_string(message.epoch) + ": " + message.cause);
}

// M10: a leader of a higher term was elected. It gets the reports that the leaders before it may
// not have received, or have not acted on.
void membership::adopt(rank_t leader, std::uint32_t term) {
  role_ = role::member;
  term_ = term;
  leader_ = leader;
  heard_leader_ = awake_;
  for (const auto rank : peers(false)) send(leader_, loss_of(rank));
  confirm_leader();
}

void membership::confirm_leader() {
  pledged_ = false;
  if (leaving_) send(leader_, membership_messages::leave{});
}

// Pre: `rank` is a peer.
membership_messages::suspect membership::loss_of(rank_t rank) const {
  const auto incarnation = peer(rank)->incarnation;
  const auto place = lost_.find(rank);
  if (place == lost_.end())
    return {rank, incarnation, transport::loss_kind::broken, "it was fenced before"};
  return {rank, incarnation, place->second.kind, place->second.text};
}

// M6: the leader is notified. The loss of the leader, or of the node that should stand, leads to an
// election.
void membership::member_lost(rank_t rank) {
  if (role_ == role::seeking) {
    if (rank == sought_) look_for_leader();
  } else if (rank == leader_) {
    leader_lost();
  } else {
    send(leader_, loss_of(rank));
  }
}

// M13: nothing has come from the leader.
void membership::tick_member() {
  if (awake_ - heard_leader_ < options_.hang_limit) return;
  const auto* who = peer(leader_);
  if (!who) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.hang_limit);
  lost_[leader_] = {transport::loss_kind::broken, "nothing has come from it for " +
                                                      std::to_string(ms.count()) +
                                                      " ms though its connection lives"};
  fence(*who, lost_[leader_].text);
  leader_lost();
}

}  // namespace troupe
