#include "troupe/apps/info/collectives.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

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
  return {{"ranks", ranks},
          {"usable_cores", cores},
          {"ways", by_operation(ways.text())},
          {"past_caches_from_bytes", ways.streaming_from},
          {"cma_from_bytes", ways.cma_from},
          {"staged_piece_bytes", ways.piece},
          {"rules", ways.text()},
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
  out += fmt::format(
      "\n  box: through shared memory, with the ranks' flags\n"
      "  direct: ranks read and write each other's tensors; staged for tensors outside the arena\n"
      "  staged: through shared memory in pieces of up to {}\n"
      "  lend, shared: outputs become copy-on-write aliases, where a rule says so\n"
      "  results go past the caches where all tensors of an operation have {} and more\n"
      "\n  TROUPE_COLLECTIVES is {}. It changes these rules, that of rank 0 for all ranks of a "
      "group:\n"
      "    TROUPE_COLLECTIVES=all_reduce:direct>=8192,broadcast:staged>=0\n"
      "  and so does the option `collectives` of one group (group_options::backend_options).\n",
      size_text(of["staged_piece_bytes"].get<std::uint64_t>()),
      size_text(of["past_caches_from_bytes"].get<std::uint64_t>()),
      of["TROUPE_COLLECTIVES"].get<std::string>());
  return out;
}

}  // namespace troupe::info
