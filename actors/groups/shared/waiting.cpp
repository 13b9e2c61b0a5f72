#include "troupe/actors/groups/shared/waiting.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>

namespace troupe::groups {

core_set usable_cores() noexcept {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  core_set out{};
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return out;
  for (std::size_t i = 0; i < std::min<std::size_t>(CPU_SETSIZE, 64 * out.size()); ++i)
    if (CPU_ISSET(i, &cores)) out[i / 64] |= std::uint64_t{1} << i % 64;
  return out;
}

int count_cores(std::span<const core_set> of_ranks) noexcept {
  core_set all{};
  for (const auto& one : of_ranks)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= one[i];
  int count = 0;
  for (const auto word : all) count += std::popcount(word);
  return std::max(count, 1);
}

waiting waiting::for_ranks(int ranks, int cores) noexcept {
  waiting how;
  how.yields = ranks > cores;
  if (how.yields) how.looks = 8;
  return how;
}

}  // namespace troupe::groups
