#include "streams_internal.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "accelerator.hpp"
#include "counters_internal.hpp"

namespace troupe::test::accelerator {

namespace {

std::atomic<std::int64_t> least_delay{0};
std::atomic<std::int64_t> most_delay{200};

void be_late(std::minstd_rand& random) {
  const auto least = least_delay.load(), most = std::max(least, most_delay.load());
  const auto by = std::uniform_int_distribution<std::int64_t>(least, most)(random);
  if (by > 0) std::this_thread::sleep_for(std::chrono::microseconds(by));
}

struct all_streams {
  std::vector<std::unique_ptr<stream_thread>> threads;
  std::array<std::atomic<unsigned>, 2 * device_count> next{};  // of each pool

  all_streams() {
    for (int device = 0; device < device_count; ++device)
      for (int id = 0; id < streams_per_device; ++id)
        threads.push_back(std::make_unique<stream_thread>(device));
  }
};

// Never destroyed: the threads are there until the process ends.
all_streams& streams() {
  static auto* const all = new all_streams;
  return *all;
}

struct current_state {
  int device = 0;
  std::array<std::int64_t, device_count> streams{};
};
thread_local current_state current;

}  // namespace

void stream_thread::add(std::function<void()> work, bool at_once) {
  const std::lock_guard lock(mutex_);
  items_.push_back({std::move(work), at_once});
  ++put_;
  if (!started_) {
    started_ = true;
    std::thread([this] { run(); }).detach();
  }
  changed_.notify_all();
}

void stream_thread::wait() {
  std::unique_lock lock(mutex_);
  const auto until = put_;
  changed_.wait(lock, [&] { return done_ >= until; });
}

bool stream_thread::idle() {
  const std::lock_guard lock(mutex_);
  return done_ == put_;
}

void stream_thread::run() {
  pthread_setname_np(pthread_self(), "sim-stream");
  std::minstd_rand random(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(this) >> 4));
  for (;;) {
    item next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !items_.empty(); });
      next = std::move(items_.front());
      items_.pop_front();
    }
    if (!next.at_once) be_late(random);
    next.run();
    next.run = nullptr;  // what it holds is free before the work counts as done
    {
      const std::lock_guard lock(mutex_);
      ++done_;
    }
    changed_.notify_all();
  }
}

void recorded::reach() {
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

bool recorded::reached() {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void recorded::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

std::chrono::steady_clock::time_point recorded::time() {
  wait();
  return time_;
}

stream_thread& thread_of(int device, std::int64_t id) {
  return *streams().threads.at(static_cast<std::size_t>(device) * streams_per_device +
                               static_cast<std::size_t>(id));
}

stream_thread& thread_of(const c10::Stream& stream) {
  return thread_of(stream.device_index(), stream.id());
}

int current_device() noexcept { return current.device; }
void set_current_device(int device) noexcept { current.device = device; }

c10::Stream current_stream(int device) noexcept {
  return c10::Stream(c10::Stream::UNSAFE, accelerator::device(device),
                     current.streams[static_cast<std::size_t>(device)]);
}

void set_current_stream(const c10::Stream& stream) noexcept {
  current.streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
}

c10::Stream next_of_pool(int device, bool urgent) noexcept {
  const int pool = urgent ? 1 : 0;
  const auto n = streams().next[static_cast<std::size_t>(2 * device + pool)]++;
  return c10::Stream(c10::Stream::UNSAFE, accelerator::device(device),
                     1 + pool * pool_streams + n % pool_streams);
}

void finish_device(int device) {
  for (int id = 0; id < streams_per_device; ++id) thread_of(device, id).wait();
}

void finish_streams() {
  for (int device = 0; device < device_count; ++device) finish_device(device);
}

void enqueue(c10::Stream stream, std::function<void()> work) {
  ++count().kernels;
  thread_of(stream).add(std::move(work));
}

void set_delay(std::chrono::microseconds least, std::chrono::microseconds most) noexcept {
  least_delay = least.count();
  most_delay = most.count();
}

slow::slow(std::chrono::microseconds by) : least_(least_delay), most_(most_delay) {
  set_delay(by, by);
}

slow::~slow() {
  least_delay = least_;
  most_delay = most_;
}

}  // namespace troupe::test::accelerator

using namespace troupe::test::accelerator;

void troupe_sim_enqueue(void* stream, void (*run)(void*), void* argument) {
  ++count().kernels;
  static_cast<stream_thread*>(stream)->add([run, argument] { run(argument); });
}

void troupe_sim_synchronize(void* stream) {
  ++count().stream_synchronizations;
  static_cast<stream_thread*>(stream)->wait();
}

int troupe_sim_stream_device(void* stream) { return static_cast<stream_thread*>(stream)->device(); }
