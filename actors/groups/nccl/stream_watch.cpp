#include "troupe/actors/groups/nccl/stream_watch.hpp"

#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/nccl/farewell.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::nccl {

namespace {

using namespace std::chrono_literals;

// How often it looks: the longer nothing has ended, the less.
constexpr auto shortest_pause = 50us;
constexpr auto longest_pause = 5'000us;

// For what an abort has freed. What is still on a device then keeps its tensors for ever.
constexpr auto most_wait_for_device = 10s;

// An error of the device, by whatever was on it, is told by `why`.
bool has_ended(const stream_operation& what, std::exception_ptr& why) noexcept {
  try {
    return what.end->query();
  } catch (...) {
    why = std::current_exception();
    return false;
  }
}

}  // namespace

struct stream_watch::state {
  owner of;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<stream_operation> pending;  // of several devices; each device's are in order
  std::size_t added = 0;                 // so far
  std::exception_ptr failure;
  bool under_way = false;  // some were taken out of `pending`, and are not told yet
  bool closed = false;
  std::thread::id thread;
  std::shared_ptr<const void> left_behind;
  std::unique_ptr<farewell> ending;  // from when it is closed on

  void work();
  bool await_something(bool aborted);
  std::vector<stream_operation> take_ended(std::exception_ptr& why);
  void end_all(const std::exception_ptr& why) noexcept;
  void told() {
    const std::lock_guard lock(mutex);
    under_way = false;
    changed.notify_all();
  }
};

stream_watch::stream_watch(owner of) : state_(std::make_shared<state>()) {
  state_->of = std::move(of);
  std::thread([state = state_] {
    state->work();
    state->of = {};
    state->left_behind.reset();
    state->ending.reset();
  }).detach();
}

stream_watch::~stream_watch() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->ending = std::make_unique<farewell>();
  state_->changed.notify_all();
}

void stream_watch::leave_behind(std::shared_ptr<const void> what) {
  const std::lock_guard lock(state_->mutex);
  state_->left_behind = std::move(what);
}

void stream_watch::add(stream_operation what) {
  const std::lock_guard lock(state_->mutex);
  state_->pending.push_back(std::move(what));
  ++state_->added;
  state_->changed.notify_all();
}

void stream_watch::fail(std::exception_ptr why) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) return;
  state_->failure = std::move(why);
  state_->changed.notify_all();
}

void stream_watch::wait_until_idle() const {
  std::unique_lock lock(state_->mutex);
  if (state_->thread == std::this_thread::get_id()) return;
  state_->changed.wait(lock, [&] { return state_->pending.empty() && !state_->under_way; });
}

// False: it is over.
bool stream_watch::state::await_something(bool aborted) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return closed || !pending.empty() || (failure && !aborted); });
  return !closed || !pending.empty();
}

// Those of a device end in order, and those of several are few.
std::vector<stream_operation> stream_watch::state::take_ended(std::exception_ptr& why) {
  std::vector<stream_operation> out;
  const std::lock_guard lock(mutex);
  if (failure) return out;
  for (auto one = pending.begin(); one != pending.end() && !why;) {
    if (has_ended(*one, why)) {
      out.push_back(std::move(*one));
      one = pending.erase(one);
    } else {
      ++one;
    }
  }
  under_way = !out.empty();
  return out;
}

void stream_watch::state::work() {
  {
    const std::lock_guard lock(mutex);
    thread = std::this_thread::get_id();
  }
  bool aborted = false;
  std::chrono::microseconds pause = shortest_pause;
  while (await_something(aborted)) {
    std::exception_ptr why;
    auto over = take_ended(why);
    // What an abort has freed has ended too. The look comes later: an abort that is not seen now
    // had not begun when these had ended.
    if (!why) why = of.look();
    for (auto& one : over) one.ended(why);
    const bool some = !over.empty();
    over.clear();
    if (some) told();
    if (some && !why) {
      pause = shortest_pause;
      continue;
    }
    std::size_t had = 0;
    {
      const std::lock_guard lock(mutex);
      for (const auto& one : pending)
        if (!why) why = of.problem(one);
      if (why && !failure) failure = why;
      why = failure;
      had = added;
    }
    if (why) {
      end_all(why);
      aborted = true;
      continue;
    }
    std::unique_lock lock(mutex);
    const bool news = changed.wait_for(lock, pause, [&] { return failure || added != had; });
    pause = news ? shortest_pause : std::min<std::chrono::microseconds>(pause * 2, longest_pause);
  }
}

// Whoever waits is told at once; the tensors stay until nothing on the device writes them.
void stream_watch::state::end_all(const std::exception_ptr& why) noexcept {
  std::deque<stream_operation> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(pending);
    under_way = true;
  }
  for (auto& one : all) {
    one.ended(why);
    one.ended = nullptr;
  }
  told();
  of.abort();
  const auto until = std::chrono::steady_clock::now() + most_wait_for_device;
  for (auto& one : all) {
    std::exception_ptr failed;
    while (!has_ended(one, failed) && !failed && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
    if (has_ended(one, failed) || failed) continue;
    log().warn("{} is still on its device {} s after its group was aborted: its tensors are kept",
               to_string(one.kind), std::chrono::seconds(most_wait_for_device).count());
    // If there is no memory for that, nothing can be kept.
    static_cast<void>(new (std::nothrow) stream_operation(std::move(one)));
  }
}

}  // namespace troupe::groups::nccl
