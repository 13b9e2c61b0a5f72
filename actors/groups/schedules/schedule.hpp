#pragma once

#include <vector>

namespace troupe::groups::schedules {

/// What a message has: `count` of the blocks that the data are cut into, from `first` on, in a
/// circle. Of these, where `bit` is not 0, only those whose number has that bit.
struct block_set {
  int first = 0;
  int count = 0;
  int bit = 0;

  friend bool operator==(const block_set&, const block_set&) = default;
};

inline constexpr int nobody = -1;

/// What one rank does at once: it sends to one rank, and receives from one, which may be the same.
/// It begins when both of the step before are done.
struct step {
  int to = nobody;
  int from = nobody;
  block_set sent{};
  block_set received{};
  bool combines = false;  ///< what arrives is added to what is there, or else replaces it
};

/// All steps of one rank. The data of all ranks are cut into the same number of blocks, as equal in
/// size as may be.
struct schedule {
  int blocks = 1;
  std::vector<step> steps{};
};

/// How many of `blocks` blocks are in a set.
int size_of(const block_set& set, int blocks) noexcept;

/// Calls `visit` with the number of each block of a set, in the order of a message.
template <class Visit>
void for_each_block(const block_set& set, int blocks, const Visit& visit) {
  for (int i = 0; i < set.count; ++i) {
    const int block = (set.first + i) % blocks;
    if (set.bit == 0 || (block & set.bit) != 0) visit(block);
  }
}

/// The smallest k with 2^k >= `ranks`.
int log2_up(int ranks) noexcept;
/// The largest power of two that is no more than `ranks`.
int power_of_two_within(int ranks) noexcept;

}  // namespace troupe::groups::schedules
