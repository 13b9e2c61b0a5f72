#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace troupe::test {

/// What an operator does with inputs whose memory belongs to another process.
enum class with_borrowed : std::uint8_t {
  reads,           ///< its result is the usual one, and it has copied nothing
  copies,          ///< the same after it has copied what it only reads
  writes,          ///< it writes to an argument by its schema, and has copied it first
  not_called,      ///< no inputs are known with which it can be called
  fails,           ///< it throws, with usual inputs it does not
  writes_through,  ///< it writes to the borrowed memory, which no process may
  differs,         ///< its result is another one
};

/// Calls each of libtorch's operators ("aten::...") with usual inputs and with borrowed ones:
/// tensors whose last dimension is `size`, on so many threads. In child processes: an operator may
/// crash.
std::map<std::string, with_borrowed> walk_operators(std::int64_t size, int threads);

}  // namespace troupe::test
