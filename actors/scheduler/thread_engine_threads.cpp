// The threads of an engine: how they are made, sleep, and end.

#include <algorithm>
#include <system_error>

#include "troupe/actors/scheduler/thread_engine.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

constexpr std::chrono::microseconds longest_pause(5'000);
constexpr unsigned most_lent = 1'024;
constexpr unsigned base_threads = 3;  // the leader, the timer thread, and a spare one

// Wakes again and again until `done`: a thread that need not be woken may consume a wake-up of the
// network.
template <class Done, class Wake>
void until(Done&& done, Wake&& wake) {
  for (std::chrono::microseconds pause(20); !done(); pause = std::min(2 * pause, longest_pause)) {
    wake();
    std::this_thread::sleep_for(pause);
  }
}

struct threads_to_join {
  std::vector<std::thread> all;
  threads_to_join() = default;
  ~threads_to_join() {
    for (auto& one : all) one.join();
  }
  threads_to_join(const threads_to_join&) = delete;
  threads_to_join& operator=(const threads_to_join&) = delete;
};

}  // namespace

struct thread_engine::parked_thread {
  std::atomic<std::uint32_t> awake{0};
};

// Without effect when the system has no thread to give: the node goes on with those it has.
void thread_engine::spawn() {
  // Joined without the lock, which the destructors of a program's thread_local variables may need.
  threads_to_join retired;
  std::unique_lock guard(threads_mutex_);
  if (stopping_) return;  // `stop` joins them all
  for (auto id : retired_) {
    auto gone = std::find_if(threads_.begin(), threads_.end(),
                             [&](const std::thread& t) { return t.get_id() == id; });
    retired.all.push_back(std::move(*gone));
    threads_.erase(gone);
  }
  retired_.clear();
  if (threads_.size() > options_.max_threads + lent_.load()) return;
  try {
    threads_.emplace_back([this] { thread_main(); });
    // After the thread is there, which `occupy` relies on. The new thread waits for this lock.
    thread_count_.fetch_add(1);
    short_of_threads_ = false;
  } catch (const std::system_error& e) {
    if (short_of_threads_.exchange(true)) return;
    const auto count = threads_.size();
    guard.unlock();
    log().warn("cannot create another thread; continuing with {}: {}", count, e.what());
  }
}

// The two counts are lowered and raised in an order in which `occupy` sees too few free threads
// rather than too many: it then leaves the work, for which this wakes a thread afterwards.
bool thread_engine::lend_thread() noexcept {
  if (lent_.fetch_add(1) >= most_lent) {
    lent_.fetch_sub(1);
    return false;
  }
  thread_count_.fetch_sub(1);
  occupied_.fetch_sub(1);
  if (work_waits() && !wake_parked()) wake_timer_thread();
  return true;
}

void thread_engine::take_thread_back() noexcept {
  occupied_.fetch_add(1);
  thread_count_.fetch_add(1);
  lent_.fetch_sub(1);
}

void thread_engine::end_waits() {
  waits_.close();
  until([&] { return waits_.empty(); },
        [&] {
          std::lock_guard guard(waiters_mutex_);
          for (auto* waiter : waiters_) waiter->wake_waiter();
          for (auto* waiter : held_) waiter->wake_waiter();
          net_->wake();
        });
}

void thread_engine::stop(const std::function<void(caf::resumable*)>& drop) {
  end_waits();
  entrance_.close();
  entrance_.wait_until_empty();
  stopping_ = true;
  until([&] { return thread_count_ == 0; },
        [&] {
          std::lock_guard guard(threads_mutex_);
          for (auto* thread : parked_) {
            thread->awake.store(1);
            futex_wake(thread->awake);
          }
          parked_.clear();
          net_->wake();
          wake_timer_thread();
        });
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  while (auto* item = dropped_.try_pop()) drop(item);
  while (auto* item = first_.try_pop()) drop(item);
  while (auto* item = queue_.try_pop()) drop(item);  // of a node that never had a thread
  inbox_.clear();
  local_.clear();
}

bool thread_engine::wake_parked() {
  // After the work was put down. `park` counts itself and then looks for work: one of the two sees
  // the other.
  if (parked_count_.load(std::memory_order_seq_cst) == 0) return false;
  std::unique_lock guard(threads_mutex_);
  if (parked_.empty()) return false;
  auto* thread = parked_.back();
  parked_.pop_back();
  parked_count_.fetch_sub(1);
  auto& word = thread->awake;
  word.store(1);
  guard.unlock();
  futex_wake(word);
  return true;
}

// False: the thread has been idle for so long that it shall end.
bool thread_engine::park() {
  parked_thread me;
  {
    std::lock_guard guard(threads_mutex_);
    parked_.push_back(&me);
    parked_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // Work that came before others could see this thread as parked woke nobody.
  if (work_waits() || !timers_watched_ || stopping_) {
    std::lock_guard guard(threads_mutex_);
    auto place = std::find(parked_.begin(), parked_.end(), &me);
    if (place != parked_.end()) {
      parked_.erase(place);
      parked_count_.fetch_sub(1);
    }
    return true;
  }
  while (me.awake.load() == 0) {
    auto until = clock::now() + options_.retire_after;
    futex_wait(me.awake, 0, until);
    if (me.awake.load() != 0 || clock::now() < until) continue;
    std::lock_guard guard(threads_mutex_);
    auto place = std::find(parked_.begin(), parked_.end(), &me);
    if (place == parked_.end()) break;  // woken at the last moment
    // If `occupy` counts on this thread, either its increment of `occupied_` is seen here, or it
    // sees this decrement: both are sequentially consistent.
    const auto count = thread_count_.fetch_sub(1);
    if (count <= std::max(base_threads, occupied_.load() + 1)) {
      thread_count_.fetch_add(1);
      continue;
    }
    parked_.erase(place);
    parked_count_.fetch_sub(1);
    retired_.push_back(std::this_thread::get_id());
    return false;
  }
  return true;
}

bool thread_engine::leader_polls_queue() const noexcept {
  return leader_role::polls_queue(role_.look());
}

}  // namespace troupe
