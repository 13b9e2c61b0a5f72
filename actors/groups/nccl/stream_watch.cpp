#include "troupe/actors/groups/nccl/stream_watch.hpp"

#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"

namespace troupe::groups::nccl {

namespace {

using namespace std::chrono_literals;

// How often it looks: the longer nothing has ended, the less.
constexpr auto shortest_pause = 50us;
constexpr auto longest_pause = 5'000us;

bool has_ended(const stream_operation& what, std::exception_ptr& why) noexcept {
  try {
    return what.end->query();
  } catch (...) {
    // An error of the device, by whatever was on it.
    why = std::current_exception();
    return false;
  }
}

}  // namespace

stream_watch::stream_watch(owner of) : owner_(std::move(of)), thread_([this] { work(); }) {}

stream_watch::~stream_watch() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void stream_watch::add(stream_operation what) {
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(what));
  }
  changed_.notify_all();
}

void stream_watch::fail(std::exception_ptr why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(why);
  }
  changed_.notify_all();
}

bool stream_watch::is_idle() const {
  const std::lock_guard lock(mutex_);
  return pending_.empty();
}

void stream_watch::work() {
  bool aborted = false;
  std::chrono::microseconds pause = shortest_pause;
  for (;;) {
    std::vector<stream_operation> over;
    std::exception_ptr why;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || !pending_.empty() || (failure_ && !aborted); });
      if (!failure_) {
        // Those of a device end in order, and those of several are few.
        for (auto one = pending_.begin(); one != pending_.end() && !why;) {
          if (has_ended(*one, why)) {
            over.push_back(std::move(*one));
            one = pending_.erase(one);
          } else {
            ++one;
          }
        }
        if (closed_ && pending_.empty() && over.empty() && !why) return;
      }
    }
    // What an abort has freed has ended too. The look comes later: an abort that is not seen now
    // had not begun when these had ended.
    if (!why) why = owner_.look();
    for (const auto& one : over) one.ended(why);
    if (!over.empty() && !why) {
      pause = shortest_pause;
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : pending_)
        if (!why) why = owner_.problem(one);
      if (why && !failure_) failure_ = why;
      why = failure_;
      if (!why && closed_) why = std::make_exception_ptr(group_failed("the group has ended"));
    }
    if (why) {
      end_all(why);
      aborted = true;
      const std::lock_guard lock(mutex_);
      if (closed_ && pending_.empty()) return;
      continue;
    }
    std::unique_lock lock(mutex_);
    const auto had = pending_.size();
    const bool news = changed_.wait_for(
        lock, pause, [&] { return closed_ || failure_ || pending_.size() != had; });
    pause = news ? shortest_pause : std::min<std::chrono::microseconds>(pause * 2, longest_pause);
  }
}

// Whoever waits is told at once; the tensors stay until nothing on the device writes them.
void stream_watch::end_all(const std::exception_ptr& why) noexcept {
  std::deque<stream_operation> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(pending_);
  }
  for (const auto& one : all) one.ended(why);
  owner_.abort();
}

}  // namespace troupe::groups::nccl
