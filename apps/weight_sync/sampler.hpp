#pragma once

#include <cstdint>
#include <troupe/parameters.hpp>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

#include "troupe/apps/weight_sync/model.hpp"

namespace weight_sync {

/// How the weights come to the samplers.
enum class method : std::uint8_t {
  pull,  ///< each sampler asks for newer ones after each of its batches
  push,  ///< the trainer sends them to all samplers after each step
};

/// What a sampler is to do: to compute batches with the newest weights that it has, until it has
/// version `last`.
struct sample_task {
  method by = method::pull;
  troupe::rref<troupe::parameter_set> weights;
  std::int64_t batch = 0;
  std::uint64_t last = 0;
  std::uint64_t seed = 0;
  bool waits = false;  ///< by pull: for a newer version after each batch
};
TROUPE_MESSAGE(sample_task, by, weights, batch, last, seed, waits)

/// One batch of a sampler.
struct sampled_batch {
  double seconds = 0;         ///< when it was done, since the sampler began
  std::uint64_t version = 0;  ///< of the weights that it was computed with
  std::uint64_t newest = 0;   ///< that the trainer had committed when it was done
};
TROUPE_MESSAGE(sampled_batch, seconds, version, newest)

/// What it has done.
struct sampler_record {
  std::vector<sampled_batch> batches;
  /// The digest of each version that it has had.
  std::vector<std::pair<std::uint64_t, std::int64_t>> digests;
};
TROUPE_MESSAGE(sampler_record, batches, digests)

/// On a sampler's rank.
sampler_record sample(const sample_task& task);

/// On a sampler's rank, for method::push: newer weights.
void take(std::uint64_t version, named_weights weights);

/// When a sampler had a version, by `now_ns` of its process.
using version_times = std::vector<std::pair<std::uint64_t, std::int64_t>>;

/// On a sampler's rank: waits for version after version up to `last`, and returns when it had each.
/// In between it sleeps for a moment, so that the others find a processor.
version_times wait_for_versions(const troupe::rref<troupe::parameter_set>& weights,
                                std::uint64_t last);

/// On the trainer's rank.
std::uint64_t newest_version();
void set_newest_version(std::uint64_t version);

/// This process's monotonic clock, in nanoseconds: that of all processes of a host.
std::int64_t now_ns();

}  // namespace weight_sync
