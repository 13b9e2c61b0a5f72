#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "troupe/actors/sync/completion.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/codec/tensors_within.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace caf {
class resumable;
}

namespace troupe {

class engine;

namespace detail {

class coroutine_control;
struct question;

struct nothing {};

template <class T>
using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

/// The part of a future's state that does not depend on the type of its value: whether it is ready,
/// its error, who waits, what comes next. Thread-safe.
class future_core {
public:
  explicit future_core(std::shared_ptr<engine> driver) : engine_(std::move(driver)) {}
  virtual ~future_core();

  bool ready() const noexcept { return done_.ready(); }

  /// Blocks until it is ready; false if the deadline came first. Drives the node's network
  /// meanwhile. Throws deadlock_error in a handler of the actor whose answer this is. `shared` is
  /// this future: a search for deadlocks may have to end the wait.
  bool wait_until(clock::time_point deadline, const std::shared_ptr<future_core>& shared);

  /// Runs `next` on a thread of the node once this is ready; at once if it is ready. `next` is
  /// wanted for as long as `who`, which belongs to it, is not null; without `who`, always.
  void when_ready(caf::resumable* next, const std::atomic<void*>* who = nullptr);

  /// The same on the thread that makes it ready, which may drive a network: `next` must be short,
  /// and neither wait nor run code of the program.
  void when_ready_at_once(caf::resumable* next);

  /// One of those that were to run next is not wanted any more. Such ones are dropped now and then.
  void abandoned();

  /// Gives it up, unless it is ready: see future::cancel.
  virtual void cancel();
  bool cancelled() const noexcept { return claimed_.load() == claimant::canceller; }

  /// The control of a task's coroutine; nullptr for all other futures.
  virtual coroutine_control* coroutine() noexcept { return nullptr; }

  /// False when it had an outcome already.
  bool set_exception(std::exception_ptr why);

  /// What it is made from has failed elsewhere: fails with `why`, unless it has an outcome. What it
  /// has asked for is not wanted any more.
  virtual void fail_early(const std::exception_ptr& why) { set_exception(why); }

  const std::exception_ptr& failure() const noexcept { return failure_; }
  const std::shared_ptr<engine>& driver() const noexcept { return engine_; }

  /// Names the actor of this node that is to answer: it must not wait for itself.
  void answered_by(std::uint64_t local_actor) noexcept { answerer_ = local_actor; }

  /// A thread of this node makes it ready, not a message: see completion.
  void made_here() noexcept { done_.made_here(); }

  /// Is it the outcome of other futures, one after the other? Then its question changes.
  bool asks_on() const noexcept { return asks_on_; }

  /// Its question at this moment. Any thread, if it asks on.
  question asks_now() const noexcept;

  /// Runs `item` on a thread of `driver`; on this one if that is null or has stopped.
  static void run_on(engine* driver, caf::resumable* item);

protected:
  /// The calling thread is about to wait until `deadline`, or something is to run once this is
  /// ready (`deadline`: nullptr): what makes it ready may be done here, or be set going. Perhaps it
  /// is ready already.
  virtual void wanted(const clock::time_point* /*deadline*/) {}

  /// A handler begins (or ceases) to wait for long. The answering side may have to be notified.
  virtual void awaited_for_long(bool) noexcept {}

  /// The question whose answer this is, for a handler that waits for it; request 0: not known.
  virtual question asked() const noexcept;

  /// True for the first caller only, which then stores the outcome and calls `publish`.
  bool claim() noexcept { return claim(claimant::maker); }
  void publish();

  /// Makes it fail with cancelled_error; false when it had an outcome already.
  bool give_up(fault&& why);

  /// Before others have this future.
  void be_asking_on() noexcept { asks_on_ = true; }

  /// Before `publish`: what the calling thread has begun on devices belongs to the outcome, and so
  /// does `made`. Hot path.
  void note_devices(device_work&& made);

  /// After it is ready: the calling thread's current streams wait for that.
  void wait_on_devices() const {
    if (devices_) block_on_devices();
  }

  std::exception_ptr failure_;

private:
  void block_on_devices() const;

  enum class claimant : std::uint8_t { none, maker, canceller };

  bool claim(claimant who) noexcept {
    auto nobody = claimant::none;
    return claimed_.compare_exchange_strong(nobody, who);
  }

  // What comes next, last in first. Its head is `closed` once the outcome is there.
  struct link {
    caf::resumable* item;
    const std::atomic<void*>* who;
    link* next;
    bool at_once = false;
  };
  static link closed;

  void add(std::unique_ptr<link> mine);
  void run(const link& one) const;
  void prune();
  void run_all(link* last);

  completion done_;
  std::atomic<claimant> claimed_{claimant::none};
  std::atomic<std::uint8_t> abandoned_{0};
  bool asks_on_ = false;
  std::uint64_t answerer_ = 0;
  std::shared_ptr<engine> engine_;
  std::shared_ptr<const stream_events> devices_;  // null: nothing on devices
  std::atomic<link*> next_{nullptr};
};

template <class T>
class future_state : public future_core {
public:
  using future_core::future_core;

  /// False when it had an outcome already.
  template <class... Us>
  bool set_value(Us&&... xs) {
    if (!claim()) return false;
    try {
      value_.emplace(std::forward<Us>(xs)...);
      device_work made;  // also where no scope knows of it
      tensors_within(*value_, [&](const at::Tensor& x) { note_made(x, made); });
      note_devices(std::move(made));
    } catch (...) {  // of the value's constructor
      failure_ = std::current_exception();
    }
    publish();
    return true;
  }

  /// Pre: it is ready. What is on devices is perhaps not computed yet: the calling thread's current
  /// streams wait for that.
  std::optional<stored<T>>& value() {
    wait_on_devices();
    return value_;
  }

private:
  std::optional<stored<T>> value_;
};

/// Work that calls `body` in the autograd context of the calling thread. The caller owns the only
/// reference to it.
caf::resumable* make_continuation(std::function<void()> body);

}  // namespace detail

}  // namespace troupe
