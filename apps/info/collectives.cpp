#include "troupe/apps/info/collectives.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "troupe/actors/groups/schedules/network_ways.hpp"
#include "troupe/actors/groups/shared/ways.hpp"

namespace troupe::info {

namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// "all_reduce:box>=0,all_reduce:direct>=4097,piece=131072" by operation, in that order.
report by_operation(const std::string& rules) {
  report out = report::object();
  std::string_view rest = rules;
  while (!rest.empty()) {
    const auto one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto colon = one.find(':'), sign = one.find(">=");
    if (colon == one.npos) continue;  // a number, which is reported by itself
    out[std::string(one.substr(0, colon))].push_back(
        {{"way", one.substr(colon + 1, sign - colon - 1)},
         {"from_bytes", std::stoull(std::string(one.substr(sign + 2)))}});
  }
  return out;
}

// Why each way is taken, and what the numbers mean: the lines of the explanation that are of no
// operation.
report reasons_in(const std::string& explanation, const report& ways) {
  report out = report::array();
  std::string_view rest = explanation;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!ways.contains(std::string(line.substr(0, line.find(':'))))) out.push_back(line);
  }
  return out;
}

report lines_of(const std::string& text) {
  report out = report::array();
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    out.push_back(line);
  }
  return out;
}

}  // namespace

int ranks_that_fit() {
  cpu_set_t all;
  return sched_getaffinity(0, sizeof all, &all) == 0 ? std::max(1, CPU_COUNT(&all)) : 1;
}

report collectives(int ranks) {
  const auto cores = ranks_that_fit();
  auto ways = groups::collective_ways::measured(ranks, cores);
  const char* rules = std::getenv("TROUPE_COLLECTIVES");
  if (rules != nullptr) ways.apply(rules);
  groups::network_ways network(ranks);
  if (rules != nullptr) network.apply(rules);
  const auto table = by_operation(ways.text());
  return {{"ranks", ranks},
          {"usable_cores", cores},
          {"ways", table},
          {"reasons", reasons_in(ways.explanation(), table)},
          {"past_caches_from_bytes", ways.streaming_from},
          {"cma_from_bytes", ways.cma_from},
          {"staged_piece_bytes", ways.piece},
          {"rules", ways.text()},
          {"between_hosts", lines_of(network.explanation())},
          {"rules_between_hosts", network.text()},
          {"TROUPE_COLLECTIVES", rules != nullptr ? rules : "not set"}};
}

std::string collectives_text(const report& of) {
  auto out =
      fmt::format("collectives of {} ranks on one host with {} cores, by bytes of a tensor\n",
                  of["ranks"].get<int>(), of["usable_cores"].get<int>());
  for (const auto& [operation, ways] : of["ways"].items()) {
    std::string line;
    for (const report& one : ways)
      line += fmt::format("{}{} from {}", line.empty() ? "" : ", ", one["way"].get<std::string>(),
                          size_text(one["from_bytes"].get<std::uint64_t>()));
    out += fmt::format("  {:<24} {}\n", operation, line);
  }
  out += '\n';
  for (const report& one : of["reasons"]) out += fmt::format("  {}\n", one.get<std::string>());
  out += fmt::format(
      "\ncollectives of {} ranks on as many hosts, by bytes; a group of three ranks and more "
      "measures "
      "alpha and the rate itself\n",
      of["ranks"].get<int>());
  for (const report& one : of["between_hosts"])
    out += fmt::format("  {}\n", one.get<std::string>());
  out += fmt::format(
      "\n  TROUPE_COLLECTIVES is {}. It changes these rules, that of rank 0 for all ranks of a "
      "group:\n"
      "    TROUPE_COLLECTIVES=all_reduce:direct>=8192,broadcast:staged>=0\n"
      "    TROUPE_COLLECTIVES=network.broadcast:chain>=1048576,network.rate=1250000000\n"
      "  and so does the option `collectives` of one group (group_options::backend_options).\n",
      of["TROUPE_COLLECTIVES"].get<std::string>());
  return out;
}

}  // namespace troupe::info
