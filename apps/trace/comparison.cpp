#include "troupe/apps/trace/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "troupe/messages/base/error.hpp"

namespace troupe::trace {

namespace {

// Sums of the tensors' elements that all ranks must have alike; of other kinds they may differ.
bool inputs_are_alike(const std::string& kind) {
  return kind == "reduce" || kind == "all_gather_into_tensor" || kind == "reduce_scatter" ||
         kind == "reduce_scatter_tensor";
}
bool outputs_are_alike(const std::string& kind) {
  return kind == "broadcast" || kind == "all_reduce" || kind == "all_gather" ||
         kind == "all_gather_into_tensor" || kind == "reduce_scatter_tensor";
}

// Monitored barriers, which have numbers of their own, are none.
bool is_collective(const traced_operation& one) {
  return one.sequence != 0 && one.kind != "monitored_barrier";
}

// Two ranks agree if these texts are the same.
std::string asked_for(const traced_operation& one) {
  auto out = one.kind;
  if (one.kind == "barrier") return out;
  out += "(" + one.dtype;
  if (outputs_are_alike(one.kind))
    out += fmt::format(", {} elements", one.outputs);
  else if (inputs_are_alike(one.kind))
    out += fmt::format(", {} elements", one.inputs);
  if (!one.reduction.empty()) out += ", " + one.reduction;
  if (one.root) out += fmt::format(", root {}", *one.root);
  return out + ")";
}

const char* text_of(progress state) {
  switch (state) {
    case progress::scheduled: return "not begun";
    case progress::started: return "begun";
    case progress::completed: return "completed";
    case progress::failed: return "failed";
  }
  return "unknown";
}

// The collectives of one rank by sequence number. Those before the first one have ended.
using history = std::map<std::uint64_t, const traced_operation*>;

class group_comparison {
public:
  explicit group_comparison(const std::vector<const dump*>& dumps) : dumps_(dumps) {
    out_.group = dumps[0]->group;
    out_.description = dumps[0]->description;
    out_.size = static_cast<std::uint32_t>(dumps[0]->members.size());
    for (const auto* one : dumps) {
      if (one->members != dumps[0]->members)
        throw invalid_argument(fmt::format("{} and {} have other members of group {}: give one run",
                                           dumps[0]->file, one->file, one->group));
      auto& mine = histories_[one->rank];
      for (const auto& operation : one->operations)
        if (is_collective(operation)) mine[operation.sequence] = &operation;
    }
  }

  comparison result() {
    for (const auto* one : dumps_) add_position(*one);
    add_missing();
    out_.completed_by_all = out_.positions[0].completed;
    for (const auto& one : out_.positions)
      out_.completed_by_all = std::min(out_.completed_by_all, one.completed);
    add_mismatches();
    for (const auto* one : dumps_) add_waits(*one);
    add_stragglers();
    return std::move(out_);
  }

private:
  void add_position(const dump& of) {
    position out;
    out.rank = of.rank;
    out.name = of.name_of(of.rank);
    out.failure = of.failure;
    out.asked = of.asked;
    out.completed = of.completed;
    for (const auto& [sequence, one] : histories_[of.rank]) {
      out.asked = std::max(out.asked, sequence);
      if (one->state == progress::completed) out.completed = std::max(out.completed, sequence);
      if (out.at.empty() && one->state != progress::completed)
        out.at = fmt::format("{} {}, {}", sequence, asked_for(*one), text_of(one->state));
    }
    out_.positions.push_back(std::move(out));
  }

  void add_missing() {
    for (std::uint32_t rank = 0; rank < out_.size; ++rank)
      if (!histories_.contains(rank)) out_.missing.push_back({dumps_[0]->name_of(rank), {rank}});
  }

  void add_mismatches() {
    std::map<std::uint64_t, std::map<std::string, ranks>> all;
    for (const auto& [rank, mine] : histories_)
      for (const auto& [sequence, one] : mine) all[sequence][asked_for(*one)].push_back(rank);
    for (auto& [sequence, requests] : all) {
      if (requests.size() < 2) continue;
      mismatch out{sequence, {}};
      for (auto& [what, by] : requests) out.requests.push_back({what, std::move(by)});
      out_.mismatches.push_back(std::move(out));
    }
  }

  // Has `rank` begun it? Nothing is known of those without a dump: they are waited for.
  bool has_begun(std::uint32_t rank, std::uint64_t sequence) const {
    const auto mine = histories_.find(rank);
    if (mine == histories_.end()) return false;
    for (const auto* one : dumps_)
      if (one->rank == rank && sequence <= one->completed) return true;
    const auto& all = mine->second;
    const auto at = all.find(sequence);
    if (at != all.end()) return at->second->state != progress::scheduled;
    return !all.empty() && sequence < all.begin()->first;
  }

  void add_waits(const dump& of) {
    for (const auto& [sequence, one] : histories_[of.rank]) {
      const bool waits = one->state == progress::started || one->state == progress::failed;
      if (!waits) continue;
      waiting out{of.rank, fmt::format("{} {}", sequence, asked_for(*one)), {}};
      for (std::uint32_t rank = 0; rank < out_.size; ++rank)
        if (rank != of.rank && !has_begun(rank, sequence)) out.on.push_back(rank);
      if (!out.on.empty()) out_.waits.push_back(std::move(out));
      break;  // the others come after it
    }
    for (const auto& one : of.operations) {
      if (one.sequence != 0 || !one.peer || one.has_ended()) continue;
      waiting out{of.rank, fmt::format("{} with tag {}", one.kind, one.tag), {}};
      if (*one.peer >= 0) out.on.push_back(static_cast<std::uint32_t>(*one.peer));
      out_.waits.push_back(std::move(out));
    }
  }

  // Times of ranks can be compared where they have one clock, that of a host; it is 10 ms late.
  void add_stragglers() {
    constexpr double noise_ms = 20;
    constexpr double longest_ms = 3.6e6;
    if (histories_.size() < 2) return;
    std::map<std::uint32_t, straggler> late;
    for (const auto& [sequence, first] : histories_.begin()->second) {
      std::map<std::uint32_t, std::int64_t> began;
      for (const auto& [rank, mine] : histories_) {
        const auto at = mine.find(sequence);
        if (at != mine.end() && at->second->state == progress::completed &&
            at->second->started_ns > 0)
          began[rank] = at->second->started_ns;
      }
      if (began.size() < histories_.size()) continue;
      const auto by_time = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto [earliest, latest] = std::minmax_element(began.begin(), began.end(), by_time);
      for (const auto& [rank, time] : began) {
        auto& one = late[rank];
        one.rank = rank;
        one.late_ms += (static_cast<double>(time) - static_cast<double>(earliest->second)) * 1e-6;
        ++one.of;
        if (rank == latest->first) ++one.last;
      }
    }
    for (auto& [rank, one] : late) {
      one.late_ms /= static_cast<double>(one.of);
      if (one.late_ms > noise_ms && one.late_ms < longest_ms) out_.stragglers.push_back(one);
    }
  }

  const std::vector<const dump*> dumps_;
  std::map<std::uint32_t, history> histories_;
  comparison out_;
};

}  // namespace

bool comparison::in_step() const {
  return missing.empty() && mismatches.empty() &&
         std::ranges::all_of(positions, [&](const position& one) {
           return one.asked == positions[0].asked && one.completed == positions[0].completed;
         });
}

std::vector<comparison> compare(const std::vector<dump>& dumps) {
  std::map<std::string, std::map<std::uint32_t, const dump*>> groups;
  for (const auto& one : dumps) groups[one.group][one.rank] = &one;
  std::vector<comparison> out;
  for (const auto& [name, by_rank] : groups) {
    std::vector<const dump*> members;
    for (const auto& [rank, one] : by_rank) members.push_back(one);
    out.push_back(group_comparison(members).result());
  }
  return out;
}

}  // namespace troupe::trace
