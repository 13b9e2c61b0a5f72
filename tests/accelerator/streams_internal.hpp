#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace troupe::test::accelerator {

// Work in the order of its arrival, on a thread that begins each piece late.
class stream_thread {
public:
  explicit stream_thread(int device) : device_(device) {}

  // `at_once`: not late, for what takes no time on a GPU.
  void add(std::function<void()> work, bool at_once = false);

  // Until what is in hand now is done.
  void wait();

  bool idle();
  int device() const noexcept { return device_; }

private:
  struct item {
    std::function<void()> run;
    bool at_once;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<item> items_;
  std::uint64_t put_ = 0;
  std::uint64_t done_ = 0;
  bool started_ = false;
  const int device_;
};

// The point of a stream at which an event was recorded.
class recorded {
public:
  void reach();
  bool reached();
  void wait();
  std::chrono::steady_clock::time_point time();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

inline constexpr int pool_streams = 16;
inline constexpr int streams_per_device = 1 + 2 * pool_streams;  // the default one, and two pools

stream_thread& thread_of(const c10::Stream& stream);
stream_thread& thread_of(int device, std::int64_t id);

// The calling thread's.
int current_device() noexcept;
void set_current_device(int device) noexcept;
c10::Stream current_stream(int device) noexcept;
void set_current_stream(const c10::Stream& stream) noexcept;
c10::Stream next_of_pool(int device, bool urgent) noexcept;

// Waits for all streams: before the process ends, or of one device.
void finish_streams();
void finish_device(int device);

void register_guard();

}  // namespace troupe::test::accelerator
