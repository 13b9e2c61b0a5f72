#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <troupe/collectives.hpp>

namespace collectives {

/// What is measured.
enum class operation {
  all_reduce,
  all_gather,
  all_to_all,
  barrier,
  broadcast,
  gather,
  reduce,
  reduce_scatter,
  scatter,
};

/// "all_reduce".
const char* name_of(operation what);

/// Do its ranks combine their values?
bool reduces(operation what);

/// What the command line asks for.
struct options {
  operation op = operation::all_reduce;
  std::uint64_t smallest = 4;  ///< bytes
  std::uint64_t largest = 64 << 20;
  std::uint64_t factor = 4;  ///< between two sizes
  c10::ScalarType dtype = c10::ScalarType::Float;
  troupe::reduce_op reduction = troupe::reduce_op::sum;
  std::uint64_t iterations = 20;
  std::uint64_t warmup = 5;
  bool check = false;
  bool async = false;
  double limit = 60;  ///< seconds for which a rank may be silent
  std::string json;   ///< where the numbers go; empty: nowhere
  std::string plot;   ///< where the picture goes; empty: nowhere
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace collectives
