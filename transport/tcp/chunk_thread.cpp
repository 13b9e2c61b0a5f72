#include "troupe/transport/tcp/chunk_thread.hpp"

#include <chrono>

#include "troupe/messages/base/quiet_thread.hpp"
#include "troupe/messages/base/spin_pause.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

// Some chunks: as long as payloads stream, the next job comes sooner.
constexpr auto polls_for = 200us;
constexpr auto yields_after = 5us;

}  // namespace

chunk_thread::chunk_thread() : thread_(start_quiet_thread("troupe-chunks", [this] { run(); })) {}

chunk_thread::~chunk_thread() {
  state_.store(ended);
  state_.notify_one();
  thread_.join();
}

void chunk_thread::both(function_ref<void()> here, function_ref<void()> there) {
  start(there);
  struct joined {  // also if `here` throws: the job refers to what its caller has
    chunk_thread& thread;
    ~joined() { thread.finish(); }
  } end{*this};
  here();
}

// Sequentially consistent, as `notify_one` must see whether the thread sleeps: were it late, the
// job would be done by `finish`.
void chunk_thread::start(const function_ref<void()>& job) {
  job_ = &job;
  state_.store(offered);
  state_.notify_one();
}

// Does the job here if the thread has not begun it. Acquires what the job has written: from `done`,
// which the thread releases.
void chunk_thread::finish() noexcept {
  std::uint32_t seen = offered;
  if (state_.compare_exchange_strong(seen, running, std::memory_order_acquire)) {
    (*job_)();
  } else {
    const auto start = steady::now();
    while (state_.load(std::memory_order_acquire) != done) {
      spin_pause();
      if (steady::now() - start > yields_after) std::this_thread::yield();  // it has lost its core
    }
  }
  state_.store(idle, std::memory_order_relaxed);
}

void chunk_thread::run() noexcept {
  auto since = steady::now();
  while (true) {
    // Acquires `job_`, and what the job reads.
    auto seen = state_.load(std::memory_order_acquire);
    if (seen == ended) return;
    if (seen == offered) {
      if (!state_.compare_exchange_strong(seen, running, std::memory_order_acquire)) continue;
      (*job_)();
      state_.store(done, std::memory_order_release);
      since = steady::now();
      continue;
    }
    const auto waited = steady::now() - since;
    if (waited > polls_for) {
      state_.wait(seen);
      since = steady::now();
    } else if (waited > yields_after) {
      std::this_thread::yield();
    } else {
      spin_pause();
    }
  }
}

}  // namespace troupe::transport::tcp
