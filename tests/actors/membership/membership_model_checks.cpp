// The rules that can be seen from outside.
#include "tests/actors/membership/membership_model.hpp"

namespace troupe::membership_testing {

void membership_model::check_apply(const model_node& at,
                                   const std::vector<membership_change>& changes,
                                   const membership_view& view) {
  print(at.who.rank, " applies epoch ", view.epoch, " of ", changes.size(), " changes");
  // M1, M2.
  const auto [place, first] = history_.try_emplace(view.epoch, changes, view);
  if (place->second.first != changes) fail("two steps of one epoch");
  if (place->second.second != view) fail("two views of one epoch");
  if (first) {
    ++seen_.steps;
    for (const auto& change : changes) {
      if (change.what == membership_change::kind::died) ++seen_.deaths;
      if (change.what == membership_change::kind::joined) ++seen_.joins;
      if (change.what == membership_change::kind::left) ++seen_.leaves;
    }
  }
  // M10.
  if (at.part->leads()) {
    const auto [leader, news] = leaders_.try_emplace({at.part->term(), view.epoch}, at.index);
    if (leader->second != at.index) fail("two leaders of one term and epoch");
    if (news && terms_.insert(at.part->term()).second && at.part->term() > 0) ++seen_.elections;
  }
  // M3: every node that is not fenced here has fenced the ones that are dropped now.
  for (const auto& change : changes) {
    if (!change.removes()) continue;
    const auto out = find(change.who)->index;
    if (out == at.index) fail("drops itself");
    if (!at.fenced.contains(out)) fail("drops one that it has not fenced");
    for (const auto& other : nodes_) {
      if (!other->alive() || other->index == at.index || other->index == out) continue;
      if (at.fenced.contains(other->index) || !view.members.contains(other->who.rank)) continue;
      if (view.members.at(other->who.rank).incarnation != other->who.incarnation) continue;
      if (other->met.contains(out) && !other->fenced.contains(out))
        fail("drops one that " + std::to_string(other->who.rank) + " has not fenced");
    }
  }
}

void membership_model::check_end() {
  const auto left = running();
  for (const auto* node : left) {
    const auto name = "rank " + std::to_string(node->who.rank);
    // M15.
    if (node->part->view() != left.front()->part->view()) fail(name + " has another view");
    if (node->part->view().members.size() != left.size()) fail(name + " counts others in");
    if (node->leaves && !(node->part->leads() && left.size() > 1)) fail(name + " waits to leave");
    if (node->part->leader() != left.front()->part->leader()) fail(name + " has another leader");
    for (const auto& [rank, who] : node->part->view().members) {
      const auto* other = find(who);
      if (!other || other->now != model_node::state::running) {
        fail(name + " believes that the dead live");
        continue;
      }
      // M6: no pair that has lost its connection remains.
      if (other == node) continue;
      const auto& end = end_of(node->index, other->index);
      if (end.closed || end.reported || !end.open) fail(name + " lives with one that it has lost");
    }
  }
  for (const auto& node : nodes_)
    if (node->now == model_node::state::waiting) fail("a joiner waits for ever");
}

}  // namespace troupe::membership_testing
