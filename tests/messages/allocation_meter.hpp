#pragma once

#include <cstddef>

namespace troupe::testing {

/// Counts what a thread allocates through `operator new`, which a program that uses this replaces.
struct allocation_meter {
  std::size_t largest = 0;  ///< bytes of the largest allocation since `reset`
  std::size_t total = 0;    ///< bytes of all of them, freed or not

  /// The calling thread's.
  static allocation_meter& local() noexcept;

  static void reset() noexcept { local() = {}; }
};

}  // namespace troupe::testing
