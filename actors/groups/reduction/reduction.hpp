#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace troupe::groups {

struct reduction_job;

/// What the kernels are compiled for. All give the same results, bit by bit.
enum class instruction_set : std::uint8_t { baseline, avx2, avx512 };

/// Those that this processor has, the best last.
std::vector<instruction_set> available_instruction_sets();

/// How results are stored: into the caches; or past them, which is faster only for outputs that
/// nobody reads soon, where all memory touched exceeds the last cache. Never for outputs that are
/// inputs too.
enum class store_mode : std::uint8_t { cached, streaming };

/// Combines arrays element by element. Reads each array once and writes each result once, at the
/// speed of memory. Immutable; thread-safe.
class reduction {
public:
  /// Throws invalid_argument in the name of `function` where `op` is not possible on `dtype`.
  reduction(const char* function, reduce_op op, c10::ScalarType dtype);
  reduction(const char* function, reduce_op op, c10::ScalarType dtype, instruction_set set);

  /// Combines `count` elements of all `sources` in their order and stores the result in every
  /// one of `destinations`. Arrays are the same or do not overlap; they need no alignment. At least
  /// one source. `factors` are those of premul_sum, one for each source.
  void run(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
           std::int64_t count, store_mode stores = store_mode::cached,
           const double* factors = nullptr) const noexcept;

private:
  using kernel = void (*)(const reduction_job&);

  kernel kernel_;
  std::int64_t parts_;  // what an element is combined as: complex numbers as two
};

/// Copies memory that does not overlap.
void copy_bytes(std::byte* destination, const std::byte* source, std::size_t bytes,
                store_mode stores = store_mode::cached) noexcept;

/// Copies `source` to all `destinations`; read once. A destination may be the source.
void copy_to_all(std::span<std::byte* const> destinations, const std::byte* source,
                 std::size_t bytes, store_mode stores = store_mode::cached) noexcept;

}  // namespace troupe::groups
