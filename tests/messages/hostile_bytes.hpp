// Valid bytes, spoilt in every small way: what a decoder must survive.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/messages/allocation_meter.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::testing {

using byte_vector = std::vector<std::byte>;

/// Reads bytes that may be anything. Throws decode_error or type_mismatch, or returns.
using byte_reader = std::function<void(std::span<const std::byte>)>;

/// What a reader may allocate for `size` bytes, in all: also 65,536 elements without content.
inline std::size_t allowance(std::size_t size) { return 128 * size + (std::size_t{4} << 20); }

/// Whether `read` takes the bytes; false: it threw one of these. Anything else fails the test. The
/// bytes lie in memory of their own, so that a sanitizer sees a read beyond them.
inline bool takes(const byte_reader& read, const byte_vector& bytes, const std::string& what) {
  const byte_vector exact(bytes);
  bool taken = false;
  allocation_meter::reset();
  try {
    read(exact);
    taken = true;
  } catch (const decode_error&) {
  } catch (const type_mismatch&) {
  } catch (const std::exception& e) {
    ADD_FAILURE() << what << ": not a decode_error but " << e.what();
  }
  EXPECT_LE(allocation_meter::local().total, allowance(bytes.size())) << what;
  return taken;
}

/// Every strict prefix of `valid` is refused.
inline void expect_prefixes_refused(const byte_reader& read, const byte_vector& valid,
                                    const std::string& name, std::size_t step = 1) {
  for (std::size_t size = 0; size < valid.size(); size += step) {
    const auto what = name + " cut to " + std::to_string(size);
    EXPECT_FALSE(takes(read, {valid.begin(), valid.begin() + static_cast<long>(size)}, what))
        << what;
  }
}

/// Each byte of `valid` changed in a few ways, at most `most` bytes spread over all.
inline void survive_changed_bytes(const byte_reader& read, const byte_vector& valid,
                                  const std::string& name, std::size_t most = 512) {
  const auto step = std::max<std::size_t>(1, valid.size() / most);
  for (std::size_t at = 0; at < valid.size(); at += step)
    for (const unsigned mask : {0x01u, 0x02u, 0x10u, 0x80u, 0xffu}) {
      auto bytes = valid;
      bytes[at] ^= std::byte(mask);
      takes(read, bytes, name + " with byte " + std::to_string(at) + " changed");
    }
}

/// Eight bytes at each place that mean 2^60, all ones, and so on: lengths that cannot be.
inline void survive_changed_words(const byte_reader& read, const byte_vector& valid,
                                  const std::string& name) {
  for (std::size_t at = 0; at + 8 <= valid.size(); ++at)
    for (const std::uint64_t word :
         {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{1} << 32}) {
      auto bytes = valid;
      for (unsigned i = 0; i < 8; ++i) bytes[at + i] = std::byte(word >> (8 * i));
      takes(read, bytes, name + " with a word at " + std::to_string(at) + " changed");
    }
}

/// `count` strings of random bytes, small values more often than not; and `valid` with random ends.
inline void survive_random_bytes(const byte_reader& read, const byte_vector& valid,
                                 const std::string& name, std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    byte_vector bytes(random() % 160);
    const bool small = random() % 2 == 0;
    for (auto& b : bytes) b = std::byte(small && random() % 4 != 0 ? random() % 3 : random() % 256);
    if (i % 3 == 0 && !valid.empty()) {
      const auto kept = random() % valid.size();
      bytes.insert(bytes.begin(), valid.begin(), valid.begin() + static_cast<long>(kept));
    }
    takes(read, bytes, name + " as random bytes, number " + std::to_string(i));
  }
}

/// All of the above.
inline void survive_everything(const byte_reader& read, const byte_vector& valid,
                               const std::string& name, int random_strings = 300) {
  EXPECT_TRUE(takes(read, valid, name)) << name << " is not valid";
  expect_prefixes_refused(read, valid, name);
  survive_changed_bytes(read, valid, name);
  survive_changed_words(read, valid, name);
  survive_random_bytes(read, valid, name, 20260731, random_strings);
}

}  // namespace troupe::testing
