#include "troupe/actors/membership/view.hpp"

#include <algorithm>
#include <optional>

namespace troupe {

namespace {

const membership_change* find(const std::vector<membership_change>& changes, transport::rank_t rank,
                              bool removal) noexcept {
  auto place = std::find_if(changes.begin(), changes.end(), [&](const membership_change& change) {
    return change.who.rank == rank && change.removes() == removal;
  });
  return place == changes.end() ? nullptr : &*place;
}

}  // namespace

const membership_change* membership_step::removal_of(transport::rank_t rank) const noexcept {
  return find(changes, rank, true);
}

const membership_change* membership_step::joining_of(transport::rank_t rank) const noexcept {
  return find(changes, rank, false);
}

bool membership_view::takes(const membership_step& step) const {
  if (step.epoch == 0 || step.epoch - 1 != epoch || step.term < term) return false;
  if (!members.contains(step.leader) || step.changes.empty()) return false;
  // The incarnation at each rank that the step concerns, so far; or none.
  std::map<transport::rank_t, std::optional<std::uint64_t>> now;
  for (const auto& change : step.changes) {
    const auto& who = change.who;
    const auto here = members.find(who.rank);
    auto [place, first] = now.try_emplace(who.rank);
    auto& current = place->second;
    if (first && here != members.end()) current = here->second.incarnation;
    switch (change.what) {
      case membership_change::kind::joined: {
        const auto before = gone.find(who.rank);
        if (!first || current) return false;
        if (before != gone.end() && who.incarnation <= before->second) return false;
        current = who.incarnation;
        break;
      }
      case membership_change::kind::left:
      case membership_change::kind::died:
        if (current != who.incarnation) return false;
        current.reset();
        break;
      default: return false;
    }
  }
  return true;
}

void membership_view::apply(const membership_step& step) {
  epoch = step.epoch;
  term = step.term;
  leader = step.leader;
  for (const auto& change : step.changes) {
    const auto& who = change.who;
    if (change.removes()) {
      members.erase(who.rank);
      gone[who.rank] = who.incarnation;
    } else {
      members[who.rank] = who;
      gone.erase(who.rank);
    }
  }
}

std::string describe(const member& who) {
  return "rank " + std::to_string(who.rank) + " ('" + who.name + "')";
}

std::string text_of_removal(const member& who, const std::string& cause) {
  return describe(who) + " is not in the job any more: " + (cause.empty() ? "it has left" : cause);
}

}  // namespace troupe
