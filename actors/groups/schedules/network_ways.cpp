#include "troupe/actors/groups/schedules/network_ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::groups {

using schedules::algorithm;
using schedules::task;

namespace {

constexpr std::string_view prefix = "network.";
// What a message costs after the first of several that leave together, in alphas.
constexpr double beside_the_first = 1.0 / 8;
constexpr std::size_t smallest_network_piece = 4096;

[[noreturn]] void refuse_network_rule(std::string_view rule, const char* why) {
  throw invalid_argument(fmt::format(
      "'{}' is no rule for collectives between hosts: {}. A rule is network.OPERATION:ALGORITHM>="
      "BYTES, as in network.all_reduce:ring>=65536",
      rule, why));
}

std::size_t number_in(std::string_view rule, std::string_view text) {
  const auto out = whole_number<std::size_t>(text);
  if (!out) refuse_network_rule(rule, "what follows '=' is no number");
  return *out;
}

std::optional<task> task_named(std::string_view name) {
  for (int i = 0; i < schedules::tasks; ++i)
    if (name == to_string(static_cast<task>(i))) return static_cast<task>(i);
  return {};
}

// For some number of ranks.
bool is_possible(task what, algorithm by) { return has(what, by, 2); }

}  // namespace

void network_ways::apply(const std::string& rules) {
  std::string_view rest = rules;
  while (!rest.empty()) {
    auto one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (!one.starts_with(prefix)) continue;
    const auto rule_text = one;
    one.remove_prefix(prefix.size());
    const auto colon = one.find(':'), sign = one.find(">="), equals = one.find('=');
    if (colon == one.npos && equals != one.npos) {
      set_number(rule_text, one.substr(0, equals), number_in(rule_text, one.substr(equals + 1)));
      continue;
    }
    if (colon == one.npos || sign == one.npos || sign < colon)
      refuse_network_rule(rule_text, "it has no ':' and '>='");
    const auto what = task_named(one.substr(0, colon));
    if (!what) refuse_network_rule(rule_text, "there is no such operation");
    const auto by = schedules::algorithm_named(one.substr(colon + 1, sign - colon - 1));
    if (!by) refuse_network_rule(rule_text, "there is no such algorithm");
    if (!is_possible(*what, *by))
      refuse_network_rule(rule_text, "the operation cannot be carried out so");
    auto& all = rules_[static_cast<std::size_t>(*what)];
    const auto from = number_in(rule_text, one.substr(sign + 2));
    all.erase(std::ranges::lower_bound(all, from, {}, &rule::from), all.end());
    all.push_back({from, *by});
  }
  follow_rate();
}

void network_ways::set_link(const schedules::link& measured) noexcept {
  if (!alpha_given_) over.alpha = measured.alpha;
  if (!rate_given_) over.beta = measured.beta;
  follow_rate();
}

void network_ways::follow_rate() noexcept {
  constexpr double seconds_of_piece = 1.5e-3;
  constexpr double least = 256 * 1024, most = 1 << 20;
  constexpr std::size_t unit = 64 * 1024, most_ahead = 2 << 20;
  if (!piece_given_) {
    const auto bytes = std::clamp(seconds_of_piece / over.beta, least, most);
    piece = static_cast<std::size_t>(bytes) / unit * unit;
  }
  if (!window_given_) window = std::min(most_ahead, 4 * piece);
}

void network_ways::set_number(std::string_view rule, std::string_view name, std::size_t value) {
  if (name == "alpha") {
    over.alpha = static_cast<double>(value) * 1e-9;
    alpha_given_ = true;
  } else if (name == "rate") {
    if (value == 0) refuse_network_rule(rule, "a rate is not 0");
    over.beta = 1 / static_cast<double>(value);
    rate_given_ = true;
  } else if (name == "piece") {
    if (value < smallest_network_piece || value % 64 != 0)
      refuse_network_rule(rule, "a piece has a multiple of 64 bytes, at least 4096");
    piece = value;
    piece_given_ = true;
  } else if (name == "window") {
    window = value;
    window_given_ = true;
  } else if (name == "any_order") {
    any_order = value != 0;
  } else if (name == "hosts") {
    if (value > static_cast<std::size_t>(ranks_))
      refuse_network_rule(rule, "that are more hosts than ranks");
    hosts = static_cast<int>(value);
  } else if (name == "entry") {
    if (value > 2) refuse_network_rule(rule, "an entry is 0, 1 (direct) or 2 (Bruck's)");
    entry_ = static_cast<int>(value);
  } else {
    refuse_network_rule(rule,
                        "the numbers are 'alpha' (nanoseconds), 'rate' (bytes a second), "
                        "'piece' and 'window' (bytes), 'any_order', 'hosts' and 'entry'");
  }
}

double network_ways::seconds(task what, algorithm by, std::size_t bytes) const noexcept {
  const auto n = static_cast<double>(bytes);
  const int pieces = by == algorithm::chain ? schedules::best_pieces(ranks_, n, over) : 1;
  auto takes = cost_of(what, by, ranks_, n, pieces);
  if (by == algorithm::direct && ranks_ > 2) {
    const double turns = what == task::all_reduce ? 2 : 1;
    takes.messages = turns * (1 + (ranks_ - 2) * beside_the_first);
  }
  // Blocks that are not neighbours are copied into one message.
  if (what == task::all_gather && (by == algorithm::bruck || by == algorithm::doubling))
    takes.combined += takes.bytes;
  return takes.seconds(over);
}

bool network_ways::allows(task what, algorithm by, bool in_order) const noexcept {
  const bool reduces = what == task::all_reduce || what == task::reduce_scatter;
  return has(what, by, ranks_) && (!reduces || !in_order || by == algorithm::direct);
}

std::optional<algorithm> network_ways::ruled(task what, std::size_t bytes,
                                             bool in_order) const noexcept {
  std::optional<algorithm> last;
  for (const auto& one : rules_[static_cast<std::size_t>(what)])
    if (one.from <= bytes) last = one.by;
  return last && allows(what, *last, in_order) ? last : std::nullopt;
}

algorithm network_ways::choose(task what, std::size_t bytes, bool in_order) const noexcept {
  if (const auto by = ruled(what, bytes, in_order)) return *by;
  std::optional<algorithm> best;
  for (int i = 0; i < schedules::algorithms; ++i) {
    const auto by = static_cast<algorithm>(i);
    if (allows(what, by, in_order) &&
        (!best || seconds(what, by, bytes) < seconds(what, *best, bytes)))
      best = by;
  }
  return best.value_or(algorithm::direct);
}

bool network_ways::enters_directly() const noexcept {
  if (entry_ != 0) return entry_ == 1;
  return ranks_ <= 2 || 1 + (ranks_ - 2) * beside_the_first <= schedules::log2_up(ranks_);
}

std::string network_ways::text() const {
  std::string out;
  for (int i = 0; i < schedules::tasks; ++i)
    for (const auto& one : rules_[static_cast<std::size_t>(i)])
      out += fmt::format("network.{}:{}>={},", to_string(static_cast<task>(i)), to_string(one.by),
                         one.from);
  return out + fmt::format(
                   "network.alpha={:.0f},network.rate={:.0f},network.piece={},network.window={},"
                   "network.any_order={},network.entry={},network.hosts={}",
                   over.alpha * 1e9, 1 / over.beta, piece, window, any_order ? 1 : 0, entry_,
                   hosts);
}

std::string network_ways::explanation() const {
  std::string out;
  for (int i = 0; i < schedules::tasks; ++i) {
    const auto what = static_cast<task>(i);
    out += fmt::format("network.{}:", to_string(what));
    std::optional<algorithm> before;
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30; bytes *= 2) {
      const auto by = choose(what, bytes, !any_order);
      if (by == before) continue;
      out +=
          fmt::format("{} {} from {} B", before ? "," : "", to_string(by), bytes == 1 ? 0 : bytes);
      before = by;
    }
    out += '\n';
  }
  out += fmt::format(
      "network.alpha: {:.1f} us a message; network.rate: {:.0f} MB/s; "
      "network.piece: {} B of a message\n",
      over.alpha * 1e6, 1e-6 / over.beta, piece);
  return out;
}

}  // namespace troupe::groups
