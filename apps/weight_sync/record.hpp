#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/apps/weight_sync/sampler.hpp"

namespace weight_sync {

/// A training whose samplers got the weights by one method.
struct method_record {
  method by = method::pull;
  double seconds = 0;                ///< of the training
  std::vector<double> publishing{};  ///< seconds of each step until the next could begin
  std::vector<sampler_record> samplers{};
  std::uint64_t copies = 0;  ///< of weights, by the trainer's writes
  std::uint64_t copied_bytes = 0;
  double first_loss = 0;
  double last_loss = 0;
  std::uint64_t wrong = 0;  ///< weights of samplers that were not the trainer's

  std::size_t batches() const;
  /// Versions by which the weights of a batch were behind when it was done.
  double mean_staleness() const;
  std::uint64_t worst_staleness() const;
  double publishing_median() const;  ///< seconds
};

/// A run.
struct run_record {
  network_shape shape;
  std::int64_t steps = 0;
  std::size_t samplers = 0;
  std::vector<method_record> methods{};
  /// Seconds from before a commit until all samplers, which do nothing but wait, have the new
  /// weights; if some are on other hosts, until the trainer knows that.
  std::vector<double> waits{};
  std::uint64_t copies_while_waiting = 0;  ///< of weights, by the trainer's writes
  std::uint64_t wait_bytes = 0;            ///< of all weights

  bool is_right() const;
};

/// The median, or another share, of numbers of which there is one or more.
double quantile(std::vector<double> all, double share);

std::string name_of(method by);

/// A line for each method, and one for samplers that wait.
std::string table(const run_record& run);

/// "each sampler had the trainer's weights ...", or how often not.
std::string verdict(const run_record& run);

/// How far behind the weights of each sampler's batches were, by time, as a picture.
std::string to_svg(const run_record& run);

std::string to_json(const run_record& run);

}  // namespace weight_sync
