#pragma once

namespace troupe {

class thread_engine;

/// While it lives, the calling thread, whose handler blocks on other handlers perhaps, does not
/// count among those of its node (max_threads): another one may run handlers in its place. When it
/// goes on there may be more for a while. At most 1,024 threads of a node are lent; further ones
/// count as usual. Without effect on threads of the program, in a simulation, and inside of another
/// one. Takes a few atomic instructions, and wakes a thread if there is work.
class lent_thread {
public:
  lent_thread() noexcept;
  ~lent_thread();
  lent_thread(const lent_thread&) = delete;
  lent_thread& operator=(const lent_thread&) = delete;

private:
  thread_engine* const by_;  // nullptr: it is not lent
};

}  // namespace troupe
