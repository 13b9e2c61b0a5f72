#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace troupe::detail {

/// A thread that lasts as long as the process and handles none of the program's signals. `name`: 15
/// characters at most. Throws std::system_error.
template <class F>
void start_detached(const char* name, F&& body) {
  struct all_blocked {
    all_blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~all_blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const all_blocked meanwhile;  // a thread begins with the mask of the one that starts it
  std::thread thread(std::forward<F>(body));
  pthread_setname_np(thread.native_handle(), name);
  thread.detach();
}

}  // namespace troupe::detail
