#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/actors/sync/completion.hpp"
#include "troupe/messages/base/error.hpp"

namespace caf {
class resumable;
}

namespace troupe {

class engine;

namespace deadlock {
struct question;
}

namespace detail {

class coroutine_control;

struct nothing {};

template <class T>
using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

/// What all futures share: done or not, failed or not, who waits, what comes next. Thread-safe.
class future_core {
public:
  explicit future_core(std::shared_ptr<engine> driver) : engine_(std::move(driver)) {}
  virtual ~future_core();

  bool ready() const noexcept { return done_.ready(); }

  /// Blocks until it is ready; false when the deadline came first. Drives the node's network
  /// meanwhile. Throws deadlock_error inside of the actor whose answer this is. `shared`: this
  /// future, for those who may end the wait.
  bool wait_until(clock::time_point deadline, const std::shared_ptr<future_core>& shared);

  /// Runs `next` on a thread of the node, once it is ready; at once when it is. Somebody waits for
  /// as long as `who`, which belongs to `next`, is not null.
  void when_ready(caf::resumable* next, const std::atomic<void*>* who = nullptr);

  /// The same on the thread that makes it ready, which may drive a network: for what is short, and
  /// neither waits nor runs code of the program.
  void when_ready_at_once(caf::resumable* next);

  /// One of those who wait does so no more: what is left of such ones is dropped now and then.
  void abandoned();

  /// Gives it up, unless it is ready: see future::cancel.
  virtual void cancel();
  bool cancelled() const noexcept { return claimed_.load() == claimant::canceller; }

  /// Of a task, what knows its coroutine; else nullptr.
  virtual coroutine_control* coroutine() noexcept { return nullptr; }

  /// False when it had an outcome already.
  bool set_exception(std::exception_ptr why);

  /// What it is to be made from has failed elsewhere: fails with `why`, unless it has an outcome,
  /// and whatever it has asked for is not wanted any more.
  virtual void fail_early(const std::exception_ptr& why) { set_exception(why); }

  const std::exception_ptr& failure() const noexcept { return failure_; }
  const std::shared_ptr<engine>& driver() const noexcept { return engine_; }

  /// The actor that must answer: it must not wait for itself.
  void answered_by(std::uint64_t local_actor) noexcept { answerer_ = local_actor; }

  /// A thread of this node makes it, rather than an answer that comes: see completion.
  void made_here() noexcept { done_.made_here(); }

  /// Is it the outcome of other futures, one after the other? Then what it asks changes.
  bool asks_on() const noexcept { return asks_on_; }

  /// What it asks at this moment. Of one that asks on, for any thread.
  deadlock::question asks_now() const noexcept;

  /// Runs `job` on a thread of `driver`; here, when that is none or has stopped.
  static void run_on(engine* driver, caf::resumable* job);

protected:
  /// A handler begins (or ceases) to wait for long; who answers may have to know.
  virtual void awaited_for_long(bool) noexcept {}

  /// To what this is the answer, for a handler that waits for it; request 0: nobody knows.
  virtual deadlock::question asked() const noexcept;

  /// True for the first caller only, who then stores the outcome and calls `publish`.
  bool claim() noexcept { return claim(claimant::maker); }
  void publish();

  /// Makes it fail with cancelled_error; false when it had an outcome already.
  bool give_up(fault&& why);

  /// Before anybody else has it.
  void be_asking_on() noexcept { asks_on_ = true; }

  std::exception_ptr failure_;

private:
  enum class claimant : std::uint8_t { none, maker, canceller };

  bool claim(claimant who) noexcept {
    auto nobody = claimant::none;
    return claimed_.compare_exchange_strong(nobody, who);
  }

  // What comes next, last in first. Its head is `closed` once the outcome is there.
  struct link {
    caf::resumable* job;
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
    } catch (...) {  // of the value's constructor
      failure_ = std::current_exception();
    }
    publish();
    return true;
  }

  std::optional<stored<T>>& value() noexcept { return value_; }

private:
  std::optional<stored<T>> value_;
};

}  // namespace detail

template <class T>
class promise;

/// The value of a call that may still be under way. Copies share it. Thread-safe.
template <class T>
class future {
public:
  using value_type = T;

  future() = default;
  explicit future(std::shared_ptr<detail::future_state<T>> state) : state_(std::move(state)) {}

  /// Does it belong to a call at all?
  bool valid() const noexcept { return state_ != nullptr; }

  /// Is there a value or an error?
  bool ready() const { return state().ready(); }

  /// Blocks until there is a value or an error; false when the limit passed first.
  bool wait_for(std::chrono::nanoseconds limit) const { return wait_until(deadline_after(limit)); }
  void wait() const { wait_until(clock::time_point::max()); }

  /// The value, or throws the error. Blocks like `wait`. Every copy may ask, any number of times;
  /// the value stays here, so that of a large one a reference is what you want.
  const detail::stored<T>& get() const& requires(!std::is_void_v<T>) {
    wait();
    return *checked().value();
  }

  /// The same for a future that is given up: the value is moved out when no copy is left.
  T get() && {
    wait();
    checked();
    if constexpr (!std::is_void_v<T>) {
      // Who takes a value that cannot be copied takes it from all.
      if constexpr (std::is_copy_constructible_v<T>)
        if (state_.use_count() > 1) return *state_->value();
      return std::move(*state_->value());
    }
  }

  void get() const& requires(std::is_void_v<T>) {
    wait();
    checked();
  }

  /// Like `get`, but throws rpc_timeout when there is nothing after `limit`.
  T get_for(std::chrono::nanoseconds limit) const;

  /// Gives it up, unless it is ready: this future and its copies fail with cancelled_error at once.
  /// The callee of a call is told, and drops it, or has its coroutine throw cancelled_error; so is
  /// the coroutine of a task, whose future becomes ready when that ends. Whatever else it is made
  /// from (what `then` continues, the parts of `when_all`, the actor that was asked) goes on.
  void cancel() const { state().cancel(); }

  /// Calls `f` on a thread of the node, once this is ready; its result becomes the returned
  /// future's value, what it throws its error. `f` takes the value (nothing, if void): an error
  /// skips it and goes on to the result. Or it takes this future, as a `future<T>`, and is called
  /// in either case: `get` gives it the value or throws the error, without waiting. Who can take
  /// both, gets the value. `f` works in the autograd context of whoever calls `then`.
  template <class F>
  auto then(F f) const;

  detail::future_state<T>& state() const {
    if (!state_) throw invalid_argument("this future belongs to no call");
    return *state_;
  }
  const std::shared_ptr<detail::future_state<T>>& shared() const noexcept { return state_; }

private:
  bool wait_until(clock::time_point deadline) const {
    return state().ready() || state_->wait_until(deadline, state_);
  }
  detail::future_state<T>& checked() const {
    if (state_->failure()) std::rethrow_exception(state_->failure());
    return *state_;
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

/// The other end of a future that a program completes itself. Dropped without a value, the future
/// fails. Moved, not copied: the one that it is moved to completes the future. What has been moved
/// from may be destroyed and assigned to; all else throws invalid_argument. Assigning to a promise
/// drops what it had before. Its functions may be called on any thread, one at a time.
template <class T>
class promise {
public:
  promise() : state_(std::make_shared<detail::future_state<T>>(nullptr)) {}
  explicit promise(std::shared_ptr<engine> driver)
      : state_(std::make_shared<detail::future_state<T>>(std::move(driver))) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    promise(std::move(other)).state_.swap(state_);
    return *this;
  }
  ~promise() {
    if (state_ && !state_->ready())
      state_->set_exception(std::make_exception_ptr(
          remote_error("the promise of this future was dropped without a value")));
  }

  /// Does it have a future? Not what has been moved from.
  bool valid() const noexcept { return state_ != nullptr; }

  /// Any number of times: they are copies of one.
  future<T> get_future() const { return future<T>(checked()); }

  /// Has the future been given up? Then a value or an error is dropped.
  bool cancelled() const { return checked()->cancelled(); }

  /// Throws invalid_argument when there is a value or an error already.
  template <class... Us>
  void set_value(Us&&... xs) {
    if (!checked()->set_value(std::forward<Us>(xs)...)) twice();
  }
  void set_exception(std::exception_ptr why) {
    if (!checked()->set_exception(std::move(why))) twice();
  }

private:
  const std::shared_ptr<detail::future_state<T>>& checked() const {
    if (!state_)
      throw invalid_argument(
          "this promise has been moved from: use the one that it was moved to, or assign a new "
          "one");
    return state_;
  }
  void twice() const {
    if (!cancelled()) throw invalid_argument("a future can only be marked completed once");
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

namespace detail {

/// Runs `f` and puts what comes of it into `out`, unless nobody wants it any more.
template <class U, class F, class... Args>
void complete_with(future_state<U>& out, F& f, Args&&... args) noexcept {
  if (out.cancelled()) return;
  try {
    if constexpr (std::is_void_v<U>) {
      f(std::forward<Args>(args)...);
      out.set_value();
    } else {
      out.set_value(f(std::forward<Args>(args)...));
    }
  } catch (...) {
    out.set_exception(std::current_exception());
  }
}

// Does a continuation take the value, rather than its future?
template <class F, class T>
inline constexpr bool takes_value = std::is_invocable_v<F&, const T&>;
template <class F>
inline constexpr bool takes_value<F, void> = std::is_invocable_v<F&>;

// What a continuation makes of a T.
template <class F, class T, bool OfValue = takes_value<F, T>>
struct continued : std::invoke_result<F&, const T&> {};
template <class F>
struct continued<F, void, true> : std::invoke_result<F&> {};
template <class F, class T>
struct continued<F, T, false> : std::invoke_result<F&, const future<T>&> {
  static_assert(std::is_invocable_v<F&, const future<T>&>,
                "a continuation takes the future's value (nothing, of a future<void>), or the "
                "future itself");
};

caf::resumable* make_continuation(std::function<void()> body);

}  // namespace detail

template <class T>
T future<T>::get_for(std::chrono::nanoseconds limit) const {
  if (!wait_for(limit)) {
    fault f;
    f.text = "no value after the limit of the wait";
    f.limit = std::chrono::duration_cast<std::chrono::milliseconds>(limit);
    throw rpc_timeout(std::move(f));
  }
  if constexpr (std::is_void_v<T>)
    get();
  else
    return get();
}

template <class T>
template <class F>
auto future<T>::then(F f) const {
  using result = typename detail::continued<F, T>::type;
  auto out = std::make_shared<detail::future_state<result>>(state().driver());
  state_->when_ready(detail::make_continuation([from = state_, out, f = std::move(f)]() mutable {
    if constexpr (!detail::takes_value<F, T>) {
      const future<T> done(from);
      detail::complete_with(*out, f, done);
    } else if (from->failure())
      out->set_exception(from->failure());
    else if constexpr (std::is_void_v<T>)
      detail::complete_with(*out, f);
    else
      detail::complete_with(*out, f, std::as_const(*from->value()));
  }));
  return future<result>(out);
}

/// A future of all the values, in order; the first error wins at once, without waiting for the
/// others.
template <class T>
auto when_all(const std::vector<future<T>>& futures) {
  using result = std::conditional_t<std::is_void_v<T>, void, std::vector<detail::stored<T>>>;
  auto driver = futures.empty() ? nullptr : futures.front().state().driver();
  auto out = std::make_shared<detail::future_state<result>>(driver);
  struct gathering {
    std::vector<future<T>> from;
    std::atomic<std::size_t> missing;
  };
  auto all = std::make_shared<gathering>();
  all->from = futures;
  all->missing = futures.size() + 1;
  auto gather = [all] {
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(all->from.size());
      for (const auto& f : all->from) values.push_back(*f.state().value());
      return values;
    }
  };
  auto arrived = [all, out, gather] {
    if (--all->missing == 0) detail::complete_with(*out, gather);
  };
  for (const auto& f : futures)
    f.state().when_ready(detail::make_continuation([state = f.shared(), out, arrived] {
      if (state->failure())
        out->set_exception(state->failure());
      else
        arrived();
    }));
  arrived();
  return future<result>(out);
}

}  // namespace troupe
