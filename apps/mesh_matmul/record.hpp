#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/apps/mesh_matmul/options.hpp"

namespace mesh_matmul {

/// A whole run.
struct run_record {
  options asked;
  std::int64_t mesh_rows = 0, mesh_columns = 0;
  double operations = 0;                ///< of a product
  std::vector<double> seconds{};        ///< of each product, of the slowest rank
  std::vector<double> local_seconds{};  ///< the same for the multiplications alone
  bool right = false;

  double seconds_of_product() const;  ///< the median
  double seconds_of_local() const;
  /// Of the speed without communication, from 0 to 1 and a little more.
  double efficiency() const;
};

/// What a person reads, in lines.
std::string summary(const run_record& run);
std::string to_json(const run_record& run);

}  // namespace mesh_matmul
