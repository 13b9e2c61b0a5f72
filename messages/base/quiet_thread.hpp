#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace troupe {

/// A thread that handles none of the program's signals. `name`: 15 characters at most. Throws
/// std::system_error.
template <class F>
std::thread start_quiet_thread(const char* name, F&& body) {
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
  std::thread out(std::forward<F>(body));
  pthread_setname_np(out.native_handle(), name);
  return out;
}

}  // namespace troupe
