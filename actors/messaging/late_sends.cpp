#include "troupe/actors/messaging/late_sends.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/base/quiet_thread.hpp"

namespace troupe {

namespace {

// Between two looks at the devices. Who sends has looked for as long before (outbox.cpp).
constexpr std::chrono::microseconds pause(50);

}  // namespace

late_sends::~late_sends() {
  if (!thread_.joinable()) return;
  if (forked::from_nodes()) {
    thread_.detach();  // it is the parent's
    return;
  }
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  added_.notify_one();
  thread_.join();
}

void late_sends::add(std::unique_ptr<message> one) {
  {
    const std::lock_guard guard(mutex_);
    if (!thread_.joinable())
      thread_ = start_quiet_thread("troupe devices", [this] { look_after(); });
    waiting_.push_back(std::move(one));
    count_.fetch_add(1, std::memory_order_release);
  }
  added_.notify_one();
}

bool late_sends::holds(const lane& of) const noexcept {
  return sending_ == of ||
         std::ranges::any_of(waiting_, [&](const auto& one) { return one->lane_ == of; });
}

bool late_sends::finds(const lane& of) const noexcept {
  const std::lock_guard guard(mutex_);
  return holds(of);
}

void late_sends::wait_for(const lane& of) {
  std::unique_lock lock(mutex_);
  sent_.wait(lock, [&] { return !holds(of); });
}

// The oldest one whose bytes are there, and before which none of its lane waits.
std::unique_ptr<late_sends::message> late_sends::take_ready(bool& failed, fault& why) {
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    auto& one = **at;
    const auto same_lane = [&](const auto& other) { return other->lane_ == one.lane_; };
    if (std::any_of(waiting_.begin(), at, same_lane)) continue;
    try {
      if (one.bytes_ && !one.bytes_->there()) continue;
    } catch (const error& e) {
      failed = true;
      why = e.fault();
    }
    auto out = std::move(*at);
    waiting_.erase(at);
    sending_ = out->lane_;
    return out;
  }
  return nullptr;
}

void late_sends::look_after() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [&] { return stops_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    bool failed = false;
    fault why;
    auto one = take_ready(failed, why);
    if (!one) {
      added_.wait_for(lock, pause);
      continue;
    }
    lock.unlock();
    if (failed)
      one->fail(why);
    else
      one->send();
    one.reset();
    lock.lock();
    sending_ = {};
    // Release: who finds none has all that was sent before it.
    count_.fetch_sub(1, std::memory_order_release);
    sent_.notify_all();
  }
}

}  // namespace troupe
