#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace troupe {

/// What a completion hook is told: an operation of this rank that has ended.
struct completed_work {
  std::string operation;         ///< "all_reduce"
  std::uint64_t sequence = 0;    ///< 0: a send or recv; monitored barriers have their own
  std::exception_ptr exception;  ///< nullptr: it has ended well
};

}  // namespace troupe
