#include "troupe/actors/messaging/late_sends.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>

#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/base/quiet_thread.hpp"

namespace troupe {

namespace {

// Between two looks at the devices. Who sends has looked for as long before (outbox.cpp).
constexpr std::chrono::microseconds pause(50);

// Are they there? Otherwise, or if they never will be, why not.
bool are_there(pending_bytes* bytes, std::optional<fault>& never) noexcept {
  try {
    return !bytes || bytes->there();
  } catch (...) {
    never = describe(std::current_exception(), {}, {});
    return false;
  }
}

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

bool late_sends::start() noexcept {
  const std::lock_guard guard(mutex_);
  if (thread_.joinable()) return true;
  try {
    thread_ = start_quiet_thread("troupe-late", [this] { look_after(); });
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void late_sends::add(std::unique_ptr<message> one) {
  {
    const std::lock_guard guard(mutex_);
    const auto in = one->lane_;
    fresh_.push_back(std::move(one));
    try {
      if (in.order != 0) lanes_[key_of(in)].push_back(numbered_);
    } catch (...) {
      if (const auto made = lanes_.find(key_of(in)); made != lanes_.end() && made->second.empty())
        lanes_.erase(made);
      fresh_.pop_back();
      throw;
    }
    ++numbered_;
    count_.fetch_add(1, std::memory_order_release);
  }
  added_.notify_one();
}

bool late_sends::finds(const lane& of) const noexcept {
  const std::lock_guard guard(mutex_);
  return lanes_.contains(key_of(of));
}

void late_sends::wait_for(const lane& of) {
  std::unique_lock lock(mutex_);
  const auto until = numbered_;
  sent_.wait(lock, [&] {
    const auto found = lanes_.find(key_of(of));
    return found == lanes_.end() || found->second.front() >= until;
  });
}

void late_sends::forget(const lane& of) {
  {
    const std::lock_guard guard(mutex_);
    if (of.order != 0) {
      const auto found = lanes_.find(key_of(of));
      found->second.pop_front();
      if (found->second.empty()) lanes_.erase(found);
    }
    // Release: who finds none has all that was sent before it.
    count_.fetch_sub(1, std::memory_order_release);
  }
  sent_.notify_all();
}

// The oldest one whose bytes are there, and before which none of its lane waits. False: there is
// none.
bool late_sends::send_one() {
  std::vector<key> held_up;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const auto in = key_of((*at)->lane_);
    if (in.second != 0 && std::ranges::find(held_up, in) != held_up.end()) continue;
    std::optional<fault> never;
    if (!are_there((*at)->bytes_.get(), never) && !never) {
      if (in.second != 0) held_up.push_back(in);
      continue;
    }
    auto one = std::move(*at);
    waiting_.erase(at);
    if (never)
      one->fail(*never);
    else
      one->send();
    const auto done = one->lane_;
    one.reset();
    forget(done);
    return true;
  }
  return false;
}

void late_sends::look_after() {
  // What a message gave away may end here, and its end must not wait for messages behind it: it is
  // pushed to the engine, as on a thread that drives a network.
  self.may_block = false;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (waiting_.empty()) added_.wait(lock, [&] { return stops_ || !fresh_.empty(); });
      std::ranges::move(fresh_, std::back_inserter(waiting_));
      fresh_.clear();
      if (waiting_.empty()) return;
    }
    if (send_one()) continue;
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, pause);
  }
}

}  // namespace troupe
