// What a node of the model does when its membership wants something done.
#include "tests/actors/membership/membership_model.hpp"

namespace troupe::membership_testing {

model_node::model_node(membership_model& world, std::size_t i, member m)
    : index(i), who(std::move(m)), world_(world) {}

void model_node::expect_not_over(const char* what) {
  if (!alive()) world_.fail(std::string(what) + " of a node that is over");
}

void model_node::start(membership_view view) {
  now = state::running;
  for (const auto& [rank, other] : view.members)
    if (rank != who.rank) connect(other);
  part = std::make_unique<membership>(std::move(view), who.rank, world_.options_, *this);
}

void model_node::send(transport::rank_t to, const membership_message& message) {
  expect_not_over("send");
  const auto place = peers.find(to);
  if (place == peers.end()) return world_.fail("a message to a stranger");
  auto& line = world_.between(index, place->second);
  const auto& mine = world_.end_of(index, place->second);
  if (mine.closed || mine.reported) return world_.fail("a message to one that is lost or fenced");
  auto& theirs = world_.end_of(place->second, index);
  world_.print(who.rank, " -> ", to, ": message ", message.index());
  if (!line.cut && !theirs.closed) theirs.in.push_back(message);
}

void model_node::fence(const member& other, const fault& why) {
  expect_not_over("fence");
  if (why.code != errc::peer_lost) world_.fail("a fence of another code");
  auto* out = world_.find(other);
  if (!out) return world_.fail("fences an unknown node");
  world_.print(who.rank, " fences ", other.rank, ".", other.incarnation, ": ", why.text);
  if (!fenced.insert(out->index).second) world_.fail("fenced twice");
  const auto& line = world_.between(index, out->index);
  const auto& theirs = world_.end_of(out->index, index);
  const auto& mine = world_.end_of(index, out->index);
  // M7: a leader notifies it first.
  if (part->leads() && mine.open && !mine.reported && !line.cut && !theirs.closed && out->part) {
    const bool notified =
        !theirs.in.empty() &&
        (std::holds_alternative<membership_messages::fenced>(theirs.in.back()) ||
         std::holds_alternative<membership_messages::leave_notice>(theirs.in.back()));
    if (!notified) world_.fail("fenced by the leader without a message");
  }
  world_.close(index, out->index);
}

void model_node::connect(const member& other) {
  expect_not_over("connect");
  auto* to = world_.find(other);
  if (!to || other.address != to->who.address) return world_.fail("a wrong address");
  peers[other.rank] = to->index;
  met.insert(to->index);
  world_.open(index, to->index);
}

void model_node::apply(const std::vector<membership_change>& changes, const membership_view& view) {
  expect_not_over("apply");
  world_.check_apply(*this, changes, view);
}

void model_node::welcome(const member& other, const membership_view& view) {
  expect_not_over("welcome");
  auto* to = world_.find(other);
  if (!to) return world_.fail("welcomes an unknown node");
  to->answered = true;
  if (to->now == state::waiting) to->invitation = view;
}

void model_node::refused(const member& other, const fault&) {
  expect_not_over("refused");
  auto* to = world_.find(other);
  if (!to) return world_.fail("refuses an unknown node");
  to->answered = true;
  if (to->now == state::waiting && !to->invitation) world_.finish(*to, false);
}

void model_node::left() {
  expect_not_over("left");
  if (!leaves) world_.fail("left unasked");
  world_.print(who.rank, " has left");
  world_.finish(*this, false);
}

void model_node::ended(const fault& why) {
  expect_not_over("ended");
  world_.print(who.rank, " ends: ", why.text);
  if (why.code != errc::fenced && why.code != errc::peer_lost)
    world_.fail("an odd end: " + why.text);
  if (!world_.options_.elects && who.rank == 0) world_.fail("the leader has ended: " + why.text);
  end = why.code;
  if (why.code == errc::fenced) ++world_.seen_.fenced;
  world_.finish(*this, false);
}

}  // namespace troupe::membership_testing
