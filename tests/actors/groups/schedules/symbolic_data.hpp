#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

/// In place of values: from which ranks' blocks a block has been combined. `mark` is the sum of a
/// number of each that looks random, so that two sets are one only if nothing is missing or twice.
struct contributions {
  std::uint64_t mark = 0;
  std::uint32_t count = 0;

  /// Block `block` of rank `rank`.
  static contributions of(int rank, int block) {
    std::uint64_t x = (static_cast<std::uint64_t>(rank) << 32 | static_cast<unsigned>(block)) + 1;
    for (int i = 0; i < 2; ++i) {  // splitmix64
      x += 0x9e3779b97f4a7c15;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
      x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
      x ^= x >> 31;
    }
    return {x, 1};
  }
  contributions operator+(const contributions& more) const {
    return {mark + more.mark, count + more.count};
  }
  friend bool operator==(const contributions&, const contributions&) = default;
};

/// The blocks of all ranks.
class symbolic_data {
public:
  using message = std::vector<contributions>;

  symbolic_data(int ranks, int blocks)
      : blocks_(blocks),
        held_(static_cast<std::size_t>(ranks), message(static_cast<std::size_t>(blocks))) {}

  contributions& at(int rank, int block) {
    return held_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(block)];
  }

  message pack(int rank, const step& what) {
    message out;
    for_each_block(what.sent, blocks_, [&](int block) { out.push_back(at(rank, block)); });
    return out;
  }

  void unpack(int rank, const step& what, message&& got) {
    std::size_t i = 0;
    for_each_block(what.received, blocks_, [&](int block) {
      if (i == got.size()) return;
      auto& here = at(rank, block);
      here = what.combines ? here + got[i] : got[i];
      ++i;
    });
    fits_ = fits_ && i == got.size() && size_of(what.received, blocks_) == static_cast<int>(i);
  }

  /// Had every message as many blocks as its receiver wanted?
  bool fits() const { return fits_; }

private:
  const int blocks_;
  std::vector<message> held_;
  bool fits_ = true;
};

}  // namespace troupe::groups::schedules
