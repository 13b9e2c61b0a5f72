#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "troupe/actors/scheduler/call_context.hpp"

namespace troupe::detail {

/// An autograd context that a thread or coroutine has opened, and what it worked for before.
/// Contexts end in any order and on any thread: a thread whose context has ended goes back to the
/// one before it that is still open. Thread-safe.
class opened_context {
public:
  opened_context(std::uint64_t id, call_context before) : id_(id), before_(std::move(before)) {
    before_.call = {};
    if (before_.opened) before_.opened->forget_ended();
  }
  opened_context(const opened_context&) = delete;
  opened_context& operator=(const opened_context&) = delete;

  // Pairs with `renew`: whoever reads an id finds that context in the node's table.
  std::uint64_t id() const noexcept { return id_.load(std::memory_order_acquire); }

  /// Another context takes its place, also for threads that work for it already.
  void renew(std::uint64_t id) noexcept { id_.store(id, std::memory_order_release); }

  // Publishes nothing else, since `before_` is under the lock. Relaxed would do.
  void end() noexcept { over_.store(true, std::memory_order_release); }
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// `what` without the contexts that have ended.
  static call_context living(call_context what) noexcept {
    while (what.opened && what.opened->over()) what = what.opened->before();
    if (what.opened) what.context = what.opened->id();
    return what;
  }

private:
  call_context before() const noexcept {
    const std::lock_guard lock(mutex_);
    return before_;
  }

  // Otherwise contexts that overlap for ever would grow a chain of ended ones.
  void forget_ended() noexcept {
    call_context last;  // let go of outside of the lock
    const std::lock_guard lock(mutex_);
    last = std::exchange(before_, living(before_));
  }

  std::atomic<std::uint64_t> id_;
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  call_context before_;
};

}  // namespace troupe::detail
