#pragma once

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/future/combinators.hpp"
#include "troupe/actors/messaging/call_options.hpp"

/// Says that a function may run twice for one call, as `retry` requires: TROUPE_IDEMPOTENT(&f), or
/// of an overloaded one, TROUPE_IDEMPOTENT(static_cast<int (*)(int)>(&f)). Goes outside of all
/// namespaces, before calls with a `retry`.
#define TROUPE_IDEMPOTENT(...) \
  template <>                  \
  inline constexpr bool troupe::is_idempotent<__VA_ARGS__> = true;

namespace troupe {

class rpc_agent;

/// May F run more often than it is called? See TROUPE_IDEMPOTENT.
template <auto F>
inline constexpr bool is_idempotent = false;

/// Behind the arguments of a call of an idempotent function: `retry(3)`, or
/// `retry{.attempts = 5, .first_pause = 1s}`. The call is made again when an attempt gets no answer
/// within the call's limit (which is each attempt's), loses its callee, or is refused by its
/// window. The callee is looked up anew each time: another node may have come in its place. What
/// the function throws, and any other error, ends the call. Between two attempts no thread waits.
struct retry {
  int attempts = 3;  ///< in all, the first one included; 1 or more
  /// Before the second attempt. Each further pause is `factor` times as long, up to a minute. A
  /// call waits between half of a pause and all of it, by chance, so that callers do not come back
  /// together: exponential backoff with "equal jitter" (Brooker, "Exponential backoff and jitter",
  /// AWS Architecture Blog, 2015).
  std::chrono::nanoseconds first_pause = std::chrono::milliseconds(100);
  double factor = 1.5;  ///< of each further pause to the one before; 1 or more
};

namespace detail {

template <>
inline constexpr bool is_option<retry> = true;

template <class... Args>
retry retry_in(const Args&... args) {
  retry how;
  [[maybe_unused]] const auto take = [&](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, retry>) how = one;
  };
  (take(args), ...);
  return how;
}

/// How the attempts of one call go. One thread at a time.
class retry_plan {
public:
  /// Throws invalid_argument.
  retry_plan(const retry& how, rpc_agent& agent, destination to, std::string_view function);
  ~retry_plan();
  retry_plan(const retry_plan&) = delete;
  retry_plan& operator=(const retry_plan&) = delete;

  /// The node, for one more attempt. Throws not_initialized.
  std::shared_ptr<rpc_agent> begin_attempt();

  /// Ready when the next attempt is due; nullptr: there shall be none after this failure.
  std::shared_ptr<future_state<void>> pause_after(const std::exception_ptr& failure);

  /// There shall be no other attempt after this failure.
  bool ends_with(const std::exception_ptr& failure) const;

  /// The failure as the caller shall see it: says how many attempts were made.
  std::exception_ptr described(const std::exception_ptr& failure) const;

private:
  bool may_go_on(const error& why) const;

  const retry how_;
  const std::weak_ptr<rpc_agent> agent_;
  const destination to_;
  const std::string_view function_;
  std::string callee_;  // of the latest attempt
  int made_ = 0;
};

/// The future of a call that is made again when it must be.
template <class T>
class retried_state final : public relayed_state<T> {
public:
  using attempt = std::function<std::shared_ptr<future_state<T>>(std::shared_ptr<rpc_agent>)>;

  retried_state(std::shared_ptr<engine> driver, fault cancelled, std::unique_ptr<retry_plan> plan,
                attempt make)
      : relayed_state<T>(std::move(driver), std::move(cancelled)),
        plan_(std::move(plan)),
        make_(std::move(make)) {}

  void go() {
    if (this->ready()) return done();  // cancelled
    try {
      auto call = make_(plan_->begin_attempt());
      // At once: those who wait may have the last thread. The rest goes with what comes next, on a
      // thread that may end the node.
      auto* const made = call.get();
      made->when_ready_at_once(make_continuation(
          [self = std::static_pointer_cast<retried_state>(this->shared_from_this()), call] {
            self->take_last(*call);
          }));
      after(std::move(call), [](retried_state& self, future_state<T>& made) {
        if (self.ready()) return self.done();
        self.failed(made.failure());
      });
    } catch (...) {
      fail(std::current_exception());
    }
  }

private:
  void take_last(future_state<T>& call) {
    if (!call.failure())
      this->be_like(call);
    else if (plan_->ends_with(call.failure()))
      this->set_exception(plan_->described(call.failure()));
  }

  void failed(const std::exception_ptr& why) {
    const auto pause = plan_->pause_after(why);
    if (!pause) return fail(why);
    after(pause, [](retried_state& self, future_state<void>& slept) {
      slept.failure() ? self.fail(slept.failure()) : self.go();
    });
  }

  // Goes on with `next` when `what` is ready, also when that is because this was cancelled.
  template <class U, class Next>
  void after(std::shared_ptr<future_state<U>> what, Next next) {
    this->wait_for(what);
    auto self = std::static_pointer_cast<retried_state>(this->shared_from_this());
    auto* const from = what.get();
    from->when_ready(make_continuation([self = std::move(self), what = std::move(what), next] {
      self->let_go();
      next(*self, *what);
    }));
  }

  void fail(const std::exception_ptr& why) {
    this->set_exception(plan_->described(why));
    done();
  }

  // The arguments go, and the node may end.
  void done() {
    make_ = nullptr;
    plan_ = nullptr;
  }

  std::unique_ptr<retry_plan> plan_;
  attempt make_;
};

}  // namespace detail

}  // namespace troupe
