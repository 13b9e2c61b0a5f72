#include "troupe/actors/groups/shared/ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::groups {

namespace {

constexpr way all_ways[] = {way::box, way::direct, way::staged, way::lend, way::shared};

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

// Why it is chosen where it is.
const char* reason_of(way one) {
  switch (one) {
    case way::box:
      return "one step. All data is copied twice, and in a reduction each rank combines all of it: "
             "cheaper than a second step while it is little";
    case way::direct:
      return "two steps, between which ranks read each other's tensors, and write them, each a "
             "slice: no byte is copied twice";
    case way::staged:
      return "one step for each piece: for tensors that lie where the others cannot reach them";
    case way::lend:
      return "one step, whatever the size. Whoever writes to its tensor then copies it: only where "
             "a rule says so, since ranks that rewrite what they have got pay more later than a "
             "copy at once costs";
    case way::shared:
      return "two steps, and one result is written instead of one for each rank. Whoever writes to "
             "its tensor then copies it: only where a rule says so";
  }
  return "";
}

bool has_way(operation_kind kind, way one) {
  switch (one) {
    case way::lend:
      return kind == operation_kind::broadcast || kind == operation_kind::all_gather ||
             kind == operation_kind::gather || kind == operation_kind::scatter ||
             kind == operation_kind::all_to_all || kind == operation_kind::send;
    case way::shared:
      return kind == operation_kind::all_reduce || kind == operation_kind::all_gather_into_tensor;
    default: return true;
  }
}

[[noreturn]] void refuse_rule(std::string_view rule, const char* why) {
  throw invalid_argument(
      fmt::format("'{}' is no rule for collectives: {}. A rule is OPERATION:WAY>=BYTES, as in "
                  "all_reduce:direct>=8192; the ways are box, direct, staged, lend and shared",
                  rule, why));
}

std::size_t bytes_in(std::string_view rule, std::string_view number) {
  const auto bytes = whole_number<std::size_t>(number);
  if (!bytes) refuse_rule(rule, "BYTES is no number");
  return *bytes;
}

}  // namespace

const char* to_string(way one) noexcept {
  switch (one) {
    case way::box: return "box";
    case way::direct: return "direct";
    case way::staged: return "staged";
    case way::lend: return "lend";
    case way::shared: return "shared";
  }
  return "unknown way";
}

collective_ways collective_ways::measured(int ranks, int cores) {
  collective_ways out;
  // A box costs one step, direct access two: 0.1 us each while the ranks spin, microseconds where
  // they share cores. What else a box costs is a copy of the tensor and, in a reduction, that each
  // rank combines all of it. In the arena the two cross between 1 and 4 KiB; but tensors of less
  // than 16 KiB do not lie there, and what is staged instead costs as much as a box from 4 to 16
  // KiB on. Where every rank has a part for each, a box is no more work than direct access but for
  // one copy: on shared cores it takes 9 us in place of 11 for 64 KiB.
  const bool crowded = ranks > cores;
  const std::size_t reduced = crowded ? 16384 : 4096;
  const std::size_t moved = crowded ? 16384 : 8192;
  constexpr std::size_t crowded_parts = 65536;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<operation_kind>(i);
    out.set(kind, 0, way::box);
    const bool parts = kind != operation_kind::broadcast && kind != operation_kind::all_reduce &&
                       kind != operation_kind::reduce;
    out.set(kind,
            (parts && crowded ? crowded_parts
             : reduces(kind)  ? reduced
                              : moved) +
                1,
            way::direct);
  }
  out.streaming_from = last_cache_bytes();
  return out;
}

void collective_ways::set(operation_kind kind, std::size_t from, way takes) {
  auto& rules = rules_[static_cast<std::size_t>(kind)];
  rules.erase(std::ranges::lower_bound(rules, from, {}, &rule::from), rules.end());
  rules.push_back({from, takes});
}

void collective_ways::apply(const std::string& rules) {
  std::string_view rest = rules;
  while (!rest.empty()) {
    const auto one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.starts_with("network.")) continue;  // see network_ways
    const auto colon = one.find(':'), sign = one.find(">="), equals = one.find('=');
    if (colon == one.npos && equals != one.npos && sign == one.npos) {
      set_number(one, one.substr(0, equals), bytes_in(one, one.substr(equals + 1)));
      continue;
    }
    if (colon == one.npos || sign == one.npos || sign < colon)
      refuse_rule(one, "it has no ':' and '>='");
    const auto kind = kind_named(one.substr(0, colon));
    if (!kind) refuse_rule(one, "there is no such operation");
    const auto takes = way_named(one.substr(colon + 1, sign - colon - 1));
    if (!takes) refuse_rule(one, "there is no such way");
    if (!has_way(*kind, *takes)) refuse_rule(one, "the operation cannot be carried out so");
    set(*kind, bytes_in(one, one.substr(sign + 2)), *takes);
  }
}

void collective_ways::set_number(std::string_view rule, std::string_view name, std::size_t bytes) {
  if (name == "streaming") {
    streaming_from = bytes;
  } else if (name == "cma") {
    cma_from = bytes;
  } else if (name == "piece") {
    if (bytes < smallest_piece || bytes % 64 != 0)
      refuse_rule(rule, "a piece has a multiple of 64 bytes, at least 4096");
    piece = bytes;
  } else {
    refuse_rule(rule, "the numbers are 'piece', 'streaming' and 'cma'");
  }
}

bool collective_ways::may_take(operation_kind kind, way one) const noexcept {
  return std::ranges::any_of(rules_[static_cast<std::size_t>(kind)],
                             [one](const rule& r) { return r.takes == one; });
}

std::string collective_ways::text() const {
  std::string out;
  for (std::size_t i = 0; i < operation_kinds; ++i)
    for (const auto& one : rules_[i])
      out += fmt::format("{}:{}>={},", to_string(static_cast<operation_kind>(i)),
                         to_string(one.takes), one.from);
  return out + fmt::format("piece={},streaming={},cma={}", piece, streaming_from, cma_from);
}

std::string collective_ways::explanation() const {
  std::string out;
  std::array<bool, std::size(all_ways)> used{};
  used[static_cast<std::size_t>(way::staged)] = true;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<operation_kind>(i);
    // They move nothing, or not by steps.
    if (kind == operation_kind::barrier || kind == operation_kind::send ||
        kind == operation_kind::recv)
      continue;
    out += fmt::format("{}:", to_string(kind));
    for (const auto& one : rules_[i]) {
      out += fmt::format(" {} from {} B{}", to_string(one.takes), one.from,
                         &one == &rules_[i].back() ? "\n" : ",");
      used[static_cast<std::size_t>(one.takes)] = true;
    }
  }
  for (const auto one : all_ways)
    if (used[static_cast<std::size_t>(one)])
      out += fmt::format("{}: {}\n", to_string(one), reason_of(one));
  out += fmt::format("piece: {} B, what is staged in one step\n", piece);
  out += fmt::format(
      "cma: {} B of a part, from which on nothing is staged that is only moved: the kernel copies "
      "it "
      "out of the other process, once (process_vm_readv), where ranks may read each other's "
      "memory\n",
      cma_from);
  out += fmt::format(
      "streaming: {} B of all tensors together, from which on results go past the caches, where "
      "nothing that is written is read: what the last cache holds\n",
      streaming_from);
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
