#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline {

/// A way of training the network.
struct way {
  std::int64_t micro_batches = 0;  ///< of a batch; 0: all in one process, where it stays whole
  std::size_t in_flight = 1;       ///< batches under way at a time

  bool is_local() const { return micro_batches == 0; }
};

/// "one process", "4 micro-batches, 2 in flight"
std::string name_of(const way& how);

/// Its result.
struct way_record {
  way how;
  std::vector<double> speeds{};  ///< images a second, of each repeat
  std::vector<float> losses{};   ///< of each step, in the first repeat
  double difference = 0;         ///< largest of any loss from that of one process
  double accuracy = 0;           ///< of the test, after the last step

  /// The median.
  double speed() const;
  double lowest_speed() const;
  double highest_speed() const;
};

/// The result of a run.
struct run_record {
  std::uint64_t seed = 0;
  std::int64_t parameters = 0;
  std::int64_t batch_size = 0;
  std::vector<double> stages{};  ///< the share of each in the network's operations
  double tolerance = 0;
  std::vector<way_record> ways{};  ///< the first is one process

  double times_faster(const way_record& one) const { return one.speed() / ways[0].speed(); }
  double difference() const;
  bool is_exact() const { return difference() <= tolerance; }
};

/// A line for each way: images a second with lowest and highest, times those of one process, the
/// largest difference of a loss, accuracy.
std::string table(const run_record& run);

/// "the losses are those of one process to 4.8e-07", or by how much too much they differ.
std::string verdict(const run_record& run);

/// The losses of all ways by step, as a picture: where they are the same, the lines lie on one
/// another.
std::string to_svg(const run_record& run);

/// The run's numbers as a JSON object, without the losses.
std::string to_json(const run_record& run);

/// A line for each step, a column for each way; what is read back is the same to the last bit.
std::string losses_text(const run_record& run);

}  // namespace pipeline
