#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mesh_matmul {

/// What the command line asks for: the product of an m x k and a k x n matrix.
struct options {
  std::int64_t m = 2048;
  std::int64_t n = 2048;
  std::int64_t k = 2048;
  std::int64_t mesh_rows = 0;  ///< of the mesh; 0: as square as the ranks can be
  std::int64_t panel = 128;    ///< columns of the one, rows of the other, that travel at once
  std::int64_t repeats = 5;    ///< products that are timed
  bool blocking = false;       ///< do not fetch the next panels during a multiplication
  int threads = 1;             ///< of each rank
  std::uint64_t seed = 0;
  double limit = 60;  ///< seconds for which a rank may be silent
  std::string json;   ///< where the numbers go; empty: nowhere
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

/// The rows of a mesh of so many ranks: `wanted`, or, if that is 0, the largest divisor that is not
/// larger than the columns. Throws std::invalid_argument if `wanted` does not divide them.
std::int64_t mesh_rows_of(std::int64_t ranks, std::int64_t wanted);

}  // namespace mesh_matmul
