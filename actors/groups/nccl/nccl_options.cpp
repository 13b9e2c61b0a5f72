#include "troupe/actors/groups/nccl/nccl_options.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::groups::nccl {

namespace {

struct number_option {
  std::string_view name;
  int configuration::*field;
  int least;
  int most;
  int since;  // the first version that has it
};

constexpr std::array<number_option, 11> numbers{{
    {"cga_cluster_size", &configuration::cga_cluster_size, 0, 8, 21700},
    {"min_ctas", &configuration::min_ctas, 1, 1024, 21700},
    {"max_ctas", &configuration::max_ctas, 1, 1024, 21700},
    {"split_share", &configuration::split_share, 0, 1, 21800},
    {"traffic_class", &configuration::traffic_class, 0, INT_MAX, 22600},
    {"collnet_enable", &configuration::collnet_enable, 0, 1, 22700},
    {"cta_policy", &configuration::cta_policy, 0, 2, 22700},
    {"shrink_share", &configuration::shrink_share, 0, 1, 22700},
    {"nvls_ctas", &configuration::nvls_ctas, 1, 1024, 22700},
    {"channels_per_net_peer", &configuration::channels_per_net_peer, 1, 1024, 22800},
    {"nvlink_centric_scheduling", &configuration::nvlink_centric_scheduling, 0, 1, 22800},
}};

constexpr std::string_view prefix = "nccl.";
constexpr std::array<std::string_view, 3> policies{"default", "efficiency", "zero"};

// The fields were added at the end, from version to version.
struct layout {
  int since;
  std::size_t size;
};
constexpr std::array<layout, 6> layouts{{
    {21400, offsetof(configuration, cga_cluster_size)},
    {21700, offsetof(configuration, split_share)},
    {21800, offsetof(configuration, traffic_class)},
    {22600, offsetof(configuration, comm_name)},
    {22700, offsetof(configuration, channels_per_net_peer)},
    {22800, sizeof(configuration)},
}};

int number_of(const std::string& name, const std::string& text, int least, int most) {
  const auto value = whole_number<int>(text);
  if (!value || *value < least || *value > most)
    throw invalid_argument(
        most == INT_MAX
            ? fmt::format("the backend option '{}' is '{}': give a number from {} on", name, text,
                          least)
            : fmt::format("the backend option '{}' is '{}': give a number from {} to {}", name,
                          text, least, most));
  return *value;
}

int policy_of(const std::string& name, const std::string& text) {
  for (std::size_t i = 0; i < policies.size(); ++i)
    if (policies[i] == text) return static_cast<int>(i);
  throw invalid_argument(
      fmt::format("the backend option '{}' is '{}': give default, efficiency or zero", name, text));
}

}  // namespace

nccl_options nccl_options::parse(const std::map<std::string, std::string>& options) {
  nccl_options out;
  for (const auto& [name, value] : options) {
    if (!name.starts_with(prefix)) continue;
    const auto short_name = std::string_view(name).substr(prefix.size());
    if (short_name == "net_name") {
      out.net_name = value;
      continue;
    }
    if (short_name == "high_priority_stream") {
      out.high_priority_stream = number_of(name, value, 0, 1) == 1;
      continue;
    }
    bool known = false;
    for (const auto& one : numbers) {
      if (one.name != short_name) continue;
      known = true;
      out.config.*one.field = short_name == "cta_policy"
                                  ? policy_of(name, value)
                                  : number_of(name, value, one.least, one.most);
    }
    if (!known)
      throw invalid_argument(
          fmt::format("NCCL has no option '{}': docs/nccl.md lists those that there are", name));
  }
  if (out.config.min_ctas != not_set && out.config.max_ctas != not_set &&
      out.config.min_ctas > out.config.max_ctas)
    throw invalid_argument(fmt::format("nccl.min_ctas, {}, is more than nccl.max_ctas, {}",
                                       out.config.min_ctas, out.config.max_ctas));
  return out;
}

configuration nccl_options::for_version(int version, const std::string& name) const {
  auto out = config;
  for (const auto& one : numbers)
    if (version < one.since && out.*one.field != not_set)
      throw invalid_argument(
          fmt::format("the backend option 'nccl.{}' needs a later NCCL than the {}.{}.{} here",
                      one.name, version / 10000, version / 100 % 100, version % 100));
  for (const auto& one : layouts) {
    if (version < one.since) break;
    out.size = (one.size + 7) / 8 * 8;  // what C makes of it
    out.version = static_cast<unsigned>(one.since);
  }
  out.net_name = net_name.empty() ? nullptr : net_name.c_str();
  out.comm_name = version >= 22700 ? name.c_str() : nullptr;
  // All calls return at once: whoever waits can be told to give up.
  out.blocking = 0;
  return out;
}

}  // namespace troupe::groups::nccl
