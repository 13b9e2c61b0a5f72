#pragma once

#include <cstdint>

namespace cartpole {

/// The random stream of `numpy.random.default_rng(seed)`: PCG64 seeded through SeedSequence.
///
/// Gives the same doubles as NumPy, bit for bit, so that a reset with a seed is Gymnasium's.
/// PCG64 is the XSL-RR 128/64 generator of O'Neill, "PCG: A Family of Simple Fast Space-Efficient
/// Statistically Good Algorithms for Random Number Generation" (2014).
class numpy_random {
public:
  explicit numpy_random(std::uint64_t seed);

  /// The next 64 random bits.
  std::uint64_t next();

  /// A double in [low, high), as `Generator.uniform(low, high)`.
  double uniform(double low, double high);

private:
  __extension__ using uint128 = unsigned __int128;

  void advance();

  uint128 state_ = 0;
  uint128 increment_ = 0;
};

}  // namespace cartpole
