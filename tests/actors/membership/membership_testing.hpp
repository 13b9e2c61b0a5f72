// One node's membership, and all that it has asked for.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/membership/membership.hpp"

namespace troupe::membership_testing {

using namespace std::chrono_literals;
using change_kind = membership_change::kind;
using transport::loss_kind;
using transport::rank_t;

inline member member_of(rank_t rank, std::uint64_t incarnation = 0) {
  return {rank, incarnation, "n" + std::to_string(rank), {std::byte(rank)}};
}

/// Ranks 0 to `count` - 1 in epoch 5; 0 leads.
inline membership_view view_of(rank_t count) {
  membership_view view;
  view.epoch = 5;
  for (rank_t rank = 0; rank < count; ++rank) view.members[rank] = member_of(rank);
  return view;
}

inline membership_change removal_of(rank_t rank, change_kind what = change_kind::died) {
  auto who = member_of(rank);
  who.address.clear();
  return {what, who, what == change_kind::died ? "gone" : ""};
}

struct recording_client final : membership_callbacks {
  void send(rank_t to, const membership_message& message) override {
    sent.emplace_back(to, message);
  }
  void fence(const member& who, const fault&) override { log.push_back("fence " + text(who)); }
  void connect(const member& who) override { log.push_back("connect " + text(who)); }
  void apply(const std::vector<membership_change>& changes, const membership_view& v) override {
    std::string line = "apply " + std::to_string(v.epoch) + ":";
    for (const auto& change : changes)
      line += std::string(change.what == change_kind::joined ? " +" : " -") + text(change.who);
    log.push_back(line);
  }
  void welcome(const member& who, const membership_view&) override {
    log.push_back("welcome " + text(who));
  }
  void refused(const member& who, const fault& f) override {
    log.push_back("refuse " + text(who));
    why = f;
  }
  void left() override { log.push_back("left"); }
  void ended(const fault& f) override {
    log.push_back("ended");
    why = f;
  }

  static std::string text(const member& who) {
    return std::to_string(who.rank) + "." + std::to_string(who.incarnation);
  }

  /// What has happened since the last call.
  std::vector<std::string> events() { return std::exchange(log, {}); }

  /// The messages of one kind that have been sent since the last call of `forget`.
  template <class Message>
  std::vector<std::pair<rank_t, Message>> all() const {
    std::vector<std::pair<rank_t, Message>> out;
    for (const auto& [to, message] : sent)
      if (const auto* x = std::get_if<Message>(&message)) out.emplace_back(to, *x);
    return out;
  }
  void forget() { sent.clear(); }

  std::vector<std::pair<rank_t, membership_message>> sent;
  std::vector<std::string> log;
  fault why;
};

/// A membership at a time of the test's making.
class one_node {
public:
  one_node(rank_t self, rank_t count, membership_options options = {})
      : part(view_of(count), self, options, out) {}

  void receive(rank_t from, const membership_message& message) { part.receive(from, message, now); }
  void lose(rank_t rank, loss_kind kind = loss_kind::broken, std::uint64_t incarnation = 0) {
    part.lost(rank, incarnation, {kind, "gone"}, now);
  }
  std::variant<member, fault> admit(const std::string& name, std::optional<rank_t> rank = {}) {
    return part.admit({rank, name, {std::byte(77)}}, now);
  }
  /// All that are asked are ready for the attempt asked for last.
  void all_ready() {
    const auto asked = out.all<membership_messages::prepare>();
    ASSERT_FALSE(asked.empty());
    const auto& last = asked.back().second;
    for (const auto& [to, message] : asked)
      if (message.attempt == last.attempt && message.step.epoch == last.step.epoch)
        receive(to, membership_messages::ready{message.term, message.step.epoch, message.attempt});
  }
  /// The leader's orders, as a member gets them.
  void prepare(std::vector<membership_change> changes, std::uint32_t attempt = 1,
               std::uint32_t epoch = 6) {
    receive(0, membership_messages::prepare{0, attempt, {epoch, 0, 0, std::move(changes)}, {}});
  }

  clock::time_point now{1h};
  recording_client out;
  membership part;
};

}  // namespace troupe::membership_testing
