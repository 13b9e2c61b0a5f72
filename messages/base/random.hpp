#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace troupe {

/// Scrambles a number (splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014; constants as in Vigna's public-domain splitmix64.c).
constexpr std::uint64_t splitmix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// xoshiro256** 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018),
/// seeded by splitmix64. Written out here, with its own ways to draw, so that a seed means the same
/// with every compiler and library.
class random_source {
public:
  explicit random_source(std::uint64_t seed) noexcept {
    for (std::size_t i = 0; i < state_.size(); ++i)
      state_[i] = splitmix64(seed + i * 0x9e3779b97f4a7c15);
  }

  std::uint64_t next() noexcept {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// True with this probability. Draws nothing when it is 0.
  bool chance(double probability) noexcept {
    return probability > 0 && static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

  /// Between 0 and `most`, both included. Draws nothing when it is 0.
  std::chrono::nanoseconds up_to(std::chrono::nanoseconds most) noexcept {
    if (most.count() <= 0) return {};
    const auto range = static_cast<std::uint64_t>(most.count()) + 1;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(next() % range));
  }

private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int k) noexcept {
    return (x << k) | (x >> (64 - k));
  }

  std::array<std::uint64_t, 4> state_;
};

}  // namespace troupe
