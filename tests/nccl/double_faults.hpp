#pragma once

#include <cstdint>
#include <string>

// Faults that tests ask the double of NCCL for.
namespace troupe::test::nccl_double {

enum class fault_kind : std::uint8_t {
  none,
  fails,        ///< the call returns a system error
  fails_later,  ///< the call is taken, and the communicator has an asynchronous error when it runs
  hangs,        ///< it does not end before the communicator is aborted
  waits         ///< it lasts longer
};

struct fault {
  fault_kind kind = fault_kind::none;
  int milliseconds = 0;  ///< of one that waits
};

/// What is to happen to a call of `function` ("all_reduce", "init") of rank `rank`; counts it.
fault next_fault(const std::string& function, int rank);

/// Calls so far, of all communicators of the process.
std::uint64_t calls_of(const std::string& function);
void count_call(const std::string& function);

}  // namespace troupe::test::nccl_double

// For tests, by dlsym; also read from TROUPE_NCCL_DOUBLE when the library is loaded. Each is
// "function:n:rank:what", separated by commas: the n-th call of `function` (from 1 on; 0: every
// one) by `rank` (-1: any) "fails", "fails_later", "hangs", or "waits" with so many ms, as
// "waits100".
extern "C" void troupe_nccl_double_set_faults(const char* text);
extern "C" std::uint64_t troupe_nccl_double_calls(const char* function);
/// Communicators that are there now.
extern "C" int troupe_nccl_double_communicators();
