#include "troupe/apps/trace/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::trace {

namespace {

using json = nlohmann::ordered_json;

std::string ranks_text(const ranks& all) {
  if (all.empty()) return "any rank";
  return fmt::format("{} {}", all.size() == 1 ? "rank" : "ranks", fmt::join(all, ", "));
}

std::string position_text(const position& one) {
  auto out = fmt::format("  rank {} ({}): asked for {}, completed {}", one.rank, one.name,
                         one.asked, one.completed);
  if (!one.at.empty()) out += "; at " + one.at;
  return out + "\n";
}

std::string group_text(const comparison& of) {
  auto out = fmt::format("group {}{} of {} ranks: {}\n", of.group,
                         of.description.empty() ? "" : " (" + of.description + ")", of.size,
                         of.in_step() ? "in step" : "OUT OF STEP");
  out += fmt::format("  last collective that {} completed: {}\n",
                     of.missing.empty() ? "all have" : "all ranks with a trace have",
                     of.completed_by_all);
  for (const auto& one : of.positions) out += position_text(one);
  for (const auto& one : of.missing)
    out += fmt::format("  rank {} ({}): no trace\n", one.by[0], one.what);
  for (const auto& one : of.mismatches) {
    out += fmt::format("  ranks disagree about {}:\n", one.sequence);
    for (const auto& asked : one.requests)
      out += fmt::format("    {}: {}\n", ranks_text(asked.by), asked.what);
  }
  for (const auto& one : of.waits)
    out += fmt::format("  rank {} waits in {} for {}\n", one.rank, one.in, ranks_text(one.on));
  for (const auto& one : of.stragglers)
    out += fmt::format("  rank {} came {:.0f} ms late on average, as the last to {} of {}\n",
                       one.rank, one.late_ms, one.last, one.of);
  for (const auto& one : of.positions)
    if (!one.failure.empty())
      out += fmt::format("  rank {} has failed: {}\n", one.rank, one.failure);
  return out;
}

json group_json(const comparison& of) {
  json positions = json::array(), missing = json::array(), mismatches = json::array(),
       waits = json::array(), stragglers = json::array();
  for (const auto& one : of.positions)
    positions.push_back({{"rank", one.rank},
                         {"name", one.name},
                         {"asked", one.asked},
                         {"completed", one.completed},
                         {"at", one.at},
                         {"failure", one.failure}});
  for (const auto& one : of.missing) missing.push_back({{"rank", one.by[0]}, {"name", one.what}});
  for (const auto& one : of.mismatches) {
    json requests = json::array();
    for (const auto& asked : one.requests)
      requests.push_back({{"ranks", asked.by}, {"what", asked.what}});
    mismatches.push_back({{"sequence", one.sequence}, {"requests", std::move(requests)}});
  }
  for (const auto& one : of.waits)
    waits.push_back({{"rank", one.rank}, {"in", one.in}, {"for", one.on}});
  for (const auto& one : of.stragglers)
    stragglers.push_back(
        {{"rank", one.rank}, {"late_ms", one.late_ms}, {"last", one.last}, {"of", one.of}});
  return {{"group", of.group},
          {"description", of.description},
          {"size", of.size},
          {"in_step", of.in_step()},
          {"completed_by_all", of.completed_by_all},
          {"positions", std::move(positions)},
          {"missing", std::move(missing)},
          {"mismatches", std::move(mismatches)},
          {"waits", std::move(waits)},
          {"stragglers", std::move(stragglers)}};
}

}  // namespace

bool all_in_step(const std::vector<comparison>& groups) {
  return std::ranges::all_of(groups, [](const comparison& one) { return one.in_step(); });
}

std::string to_text(const std::vector<comparison>& groups) {
  std::string out;
  for (const auto& one : groups) out += (out.empty() ? "" : "\n") + group_text(one);
  return out;
}

std::string to_json(const std::vector<comparison>& groups) {
  json all = json::array();
  for (const auto& one : groups) all.push_back(group_json(one));
  const json document{{"in_step", all_in_step(groups)}, {"groups", std::move(all)}};
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::trace
