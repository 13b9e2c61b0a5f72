#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace troupe::launcher {

/// A processor that the kernel schedules on.
struct processor {
  int number = 0;   ///< the kernel's
  int package = 0;  ///< the socket, -1 where the kernel does not say
  int core = 0;     ///< hardware threads of one core share it
};

/// Those that this process may use, so that neighbours share a core, and then a package. Throws
/// std::system_error.
std::vector<processor> usable_processors();

/// The numbers of the processors for one of `ranks` ranks of this machine: whole cores, as many for
/// each rank, up to one. Where ranks outnumber cores each has a hardware thread, and where they
/// outnumber those as well they take turns. Never empty. Pre: `of` is not empty.
std::vector<int> share_of(const std::vector<processor>& of, int local_rank, int ranks);

/// For sched_setaffinity. Of `usable_processors`, whose numbers it can hold.
cpu_set_t set_of(const std::vector<int>& processors);

/// "0-3,8", from numbers in any order.
std::string ranges(std::vector<int> numbers);

}  // namespace troupe::launcher
