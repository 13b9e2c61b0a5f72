#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

namespace troupe::transport::ucx {

/// Descriptors of processes (pidfd), watched together. Thread-safe.
class process_watch {
public:
  /// Throws transport_error.
  process_watch();
  ~process_watch();
  process_watch(const process_watch&) = delete;
  process_watch& operator=(const process_watch&) = delete;

  /// Readable when `ended` has something to return.
  int fd() const noexcept { return epoll_; }

  /// Watches `pidfd`, which it owns from now on, on behalf of `who`.
  void add(void* who, int pidfd);

  /// Forgets `who`, if it is watched.
  void remove(void* who);

  /// Those whose processes have ended. One system call.
  std::vector<void*> ended();

private:
  int epoll_;
  std::mutex mutex_;
  std::unordered_map<void*, int> fds_;
};

}  // namespace troupe::transport::ucx
