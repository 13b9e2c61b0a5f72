#include "troupe/apps/cartpole/numpy_random.hpp"

#include <array>
#include <bit>

// See environment.cpp: a fused multiply-add would round `uniform` once where NumPy rounds twice.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace cartpole {

namespace {

// NumPy's SeedSequence (numpy/random/bit_generator.pyx), for entropy of at most 64 bits: the
// entropy is hashed into a pool of four words, the words are mixed with each other, and the pool
// is hashed again into the state that is asked for.
class seed_sequence {
public:
  explicit seed_sequence(std::uint64_t seed) {
    const std::array<std::uint32_t, pool_size> entropy = {static_cast<std::uint32_t>(seed),
                                                          static_cast<std::uint32_t>(seed >> 32)};
    for (std::size_t i = 0; i < pool_size; ++i) pool_[i] = absorb(entropy[i]);
    for (std::size_t from = 0; from < pool_size; ++from)
      for (std::size_t to = 0; to < pool_size; ++to)
        if (from != to) pool_[to] = mix(pool_[to], absorb(pool_[from]));
  }

  std::array<std::uint64_t, 4> state() const {
    std::array<std::uint32_t, 8> words{};
    std::uint32_t constant = 0x8b51f9dd;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint32_t value = pool_[i % pool_size] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[i] = value ^ (value >> 16);
    }
    std::array<std::uint64_t, 4> result{};
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = words[2 * i] | (static_cast<std::uint64_t>(words[2 * i + 1]) << 32);
    return result;
  }

private:
  static constexpr std::size_t pool_size = 4;

  std::uint32_t absorb(std::uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ (value >> 16);
  }

  static std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t result = 0xca01f9dd * x - 0x4973f715 * y;
    return result ^ (result >> 16);
  }

  std::uint32_t constant_ = 0x43b0d7e5;
  std::array<std::uint32_t, pool_size> pool_{};
};

}  // namespace

numpy_random::numpy_random(std::uint64_t seed) {
  const auto words = seed_sequence(seed).state();
  const uint128 start = (static_cast<uint128>(words[0]) << 64) | words[1];
  const uint128 stream = (static_cast<uint128>(words[2]) << 64) | words[3];
  increment_ = (stream << 1) | 1;
  advance();
  state_ += start;
  advance();
}

void numpy_random::advance() {
  constexpr uint128 multiplier =
      (static_cast<uint128>(0x2360ed051fc65da4) << 64) | 0x4385df649fccf645;
  state_ = state_ * multiplier + increment_;
}

std::uint64_t numpy_random::next() {
  advance();
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

double numpy_random::uniform(double low, double high) {
  const double unit = static_cast<double>(next() >> 11) * 0x1.0p-53;
  return low + (high - low) * unit;
}

}  // namespace cartpole
