#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "troupe/messages/base/function_ref.hpp"

namespace troupe::transport::tcp {

/// Another thread, which does half of the work while payloads stream: it writes or reads a chunk
/// beside the one that its owner does. It polls for a moment after a job, and then sleeps. For one
/// owner, which waits for its end (fork and join). No lock and no memory per job; a system call
/// only to wake it.
class chunk_thread {
public:
  /// Throws std::system_error.
  chunk_thread();
  ~chunk_thread();
  chunk_thread(const chunk_thread&) = delete;
  chunk_thread& operator=(const chunk_thread&) = delete;

  /// Calls `here`, and `there`, which throws nothing, on this thread meanwhile: on the caller's,
  /// and afterwards, if this one has not begun by then. Returns when both are done.
  void both(function_ref<void()> here, function_ref<void()> there);

private:
  enum state : std::uint32_t { idle, offered, running, done, ended };

  void start(const function_ref<void()>& job);
  void finish() noexcept;
  void run() noexcept;

  const function_ref<void()>* job_ = nullptr;  // of the state `offered`, and of `running`
  std::atomic<std::uint32_t> state_{idle};
  std::thread thread_;
};

}  // namespace troupe::transport::tcp
