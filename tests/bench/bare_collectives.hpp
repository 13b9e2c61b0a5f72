#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troupe::bench {

inline constexpr int most_bare_ranks = 16;

/// What the ranks share: a flag for each, with 4 bytes of data, and an area for small tensors. Two
/// of everything, for odd and even steps: a rank writes that of step s + 2 when all have begun
/// s + 1, so that they have read what step s had.
struct bare_exchange {
  struct alignas(128) line {
    std::atomic<std::uint64_t> word;  // the step, and above it the bits of a float
  };
  static constexpr std::size_t area_bytes = 8 << 10;

  line lines[most_bare_ranks][2];
  alignas(64) std::byte areas[most_bare_ranks][2][area_bytes];
};

/// Collectives of float with no library around them: flags, and loops over tensors that all ranks
/// have mapped. They check nothing, all ranks must call the same, and a barrier between any two:
/// the limit of what a library can reach on this machine.
class bare_collectives {
public:
  /// `inputs` and `outputs` are the tensors of all ranks. `crowded`: there are more ranks than
  /// cores, so that a rank that waits yields its core at once. `cache`: bytes of the last cache.
  bare_collectives(bare_exchange& shared, int rank, int ranks, float* const* inputs,
                   float* const* outputs, bool crowded, std::size_t cache)
      : shared_(shared),
        rank_(rank),
        ranks_(ranks),
        inputs_(inputs),
        outputs_(outputs),
        crowded_(crowded),
        cache_(cache) {}

  void barrier() { step(0); }
  void all_reduce(std::size_t elements);      ///< of the inputs, in place
  void broadcast(std::size_t elements);       ///< of the inputs, from rank 0
  void all_gather(std::size_t elements);      ///< of an input
  void reduce_scatter(std::size_t elements);  ///< of an output
  void all_to_all(std::size_t elements);      ///< of one part

private:
  /// Shows this rank's flag and 4 bytes, and waits for those of all others.
  void step(float value);
  void show(float value);
  void wait_for(int other) const;
  float shown(int other) const;
  std::byte* area(int owner) const { return shared_.areas[owner][step_ % 2]; }
  void box(const float* from, std::size_t elements);
  bool streams(std::size_t elements) const { return elements * sizeof(float) > cache_; }

  bare_exchange& shared_;
  const int rank_, ranks_;
  float* const* inputs_;
  float* const* outputs_;
  const bool crowded_;
  const std::size_t cache_;
  std::uint32_t step_ = 0;
};

}  // namespace troupe::bench
