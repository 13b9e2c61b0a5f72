#include "troupe/actors/groups/shared/ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

constexpr way all_ways[] = {way::box, way::direct, way::staged};

std::optional<operation_kind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < operation_kinds; ++i)
    if (name == to_string(static_cast<operation_kind>(i))) return static_cast<operation_kind>(i);
  return {};
}

std::optional<way> way_named(std::string_view name) {
  for (const auto one : all_ways)
    if (name == to_string(one)) return one;
  return {};
}

[[noreturn]] void refuse_rule(std::string_view rule, const char* why) {
  throw invalid_argument(
      fmt::format("'{}' is no rule for collectives: {}. A rule is OPERATION:WAY>=BYTES, as in "
                  "all_reduce:direct>=8192; the ways are box, direct and staged",
                  rule, why));
}

}  // namespace

const char* to_string(way one) noexcept {
  switch (one) {
    case way::box: return "box";
    case way::direct: return "direct";
    case way::staged: return "staged";
  }
  return "unknown way";
}

collective_ways collective_ways::measured(int ranks, int cores) {
  collective_ways out;
  // A box costs one step, direct access two: 0.1 us each while the ranks spin, microseconds where
  // they share cores. What else a box costs is a copy of the tensor and, in a reduction, that each
  // rank combines all of it.
  const bool crowded = ranks > cores;
  const std::size_t reduced = crowded ? 16384 : 4096;
  const std::size_t moved = crowded ? 16384 : 8192;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<operation_kind>(i);
    out.set(kind, 0, way::box);
    out.set(kind, (reduces(kind) ? reduced : moved) + 1, way::direct);
  }
  out.streaming_from = last_cache_bytes();
  return out;
}

void collective_ways::set(operation_kind kind, std::size_t from, way takes) {
  auto& rules = rules_[static_cast<std::size_t>(kind)];
  auto at = std::ranges::lower_bound(rules, from, {}, &rule::from);
  if (at != rules.end() && at->from == from)
    at->takes = takes;
  else
    rules.insert(at, {from, takes});
}

void collective_ways::apply(const std::string& rules) {
  std::string_view rest = rules;
  while (!rest.empty()) {
    const auto one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto colon = one.find(':'), sign = one.find(">=");
    if (colon == one.npos || sign == one.npos || sign < colon)
      refuse_rule(one, "it has no ':' and '>='");
    const auto kind = kind_named(one.substr(0, colon));
    if (!kind) refuse_rule(one, "there is no such operation");
    const auto takes = way_named(one.substr(colon + 1, sign - colon - 1));
    if (!takes) refuse_rule(one, "there is no such way");
    std::size_t from = 0;
    const auto number = one.substr(sign + 2);
    const auto [end, bad] = std::from_chars(number.begin(), number.end(), from);
    if (bad != std::errc{} || end != number.end()) refuse_rule(one, "BYTES is no number");
    set(*kind, from, *takes);
  }
}

std::string collective_ways::text() const {
  std::string out;
  for (std::size_t i = 0; i < operation_kinds; ++i)
    for (const auto& one : rules_[i])
      out += fmt::format("{}{}:{}>={}", out.empty() ? "" : ",",
                         to_string(static_cast<operation_kind>(i)), to_string(one.takes), one.from);
  return out;
}

std::size_t last_cache_bytes() {
  // sysconf() adds up what the processors of other virtual machines share.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::size_t kib = 0;
  char unit = 0;
  if (file >> kib >> unit && unit == 'K' && kib > 0) return kib << 10;
  return std::size_t{32} << 20;
}

}  // namespace troupe::groups
