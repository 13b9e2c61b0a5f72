#include "troupe/actors/groups/schedules/schedule.hpp"

#include <bit>

namespace troupe::groups::schedules {

int size_of(const block_set& set, int blocks) noexcept {
  if (set.bit == 0) return set.count;
  int out = 0;
  for_each_block(set, blocks, [&](int) { ++out; });
  return out;
}

int log2_up(int ranks) noexcept {
  return ranks <= 1 ? 0 : std::bit_width(static_cast<unsigned>(ranks - 1));
}

int power_of_two_within(int ranks) noexcept {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
}

}  // namespace troupe::groups::schedules
