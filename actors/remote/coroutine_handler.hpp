#pragma once

#include <caf/deduce_mpi.hpp>
#include <caf/match_case.hpp>
#include <caf/response_promise.hpp>
#include <string_view>

#include "troupe/actors/future/task.hpp"
#include "troupe/actors/future/wait_all.hpp"
#include "troupe/messages/codec/type_registration.hpp"

// Handlers of actors that are coroutines: those that return a task. The requester gets its value or
// its error when there is one. No thread waits meanwhile, and the actor handles other messages.

namespace troupe::detail {

/// The answer to the message at which an actor is, which is given later, once, by any thread.
/// Dropping it tells the requester that there is none.
class later_answer {
public:
  /// Of the actor that the calling thread runs. Throws invalid_argument if it runs none.
  static later_answer of_this_message();

  /// Does nothing for a message that wants no answer.
  void give(caf::message what);
  /// As if the handler had thrown it: the requester gets it, or the log, and the actor ends.
  void fail(const std::exception_ptr& why);

private:
  later_answer(caf::strong_actor_ptr self, caf::response_promise promise, std::string_view message)
      : self_(std::move(self)), promise_(std::move(promise)), message_(message) {}

  caf::strong_actor_ptr self_;
  caf::response_promise promise_;
  std::string_view message_;  // its type; static text
};

template <class T>
void answer_with(later_answer& answer, const future<T>& done) {
  try {
    if constexpr (std::is_void_v<T>) {
      done.get();
      answer.give(caf::message());
    } else {
      answer.give(message_of(T(done.get())));
    }
  } catch (...) {
    answer.fail(std::current_exception());
  }
}

/// Answers the message at which the actor is when `work` ends.
template <class T>
caf::response_promise answer_later(const task<T>& work) {
  auto answer = later_answer::of_this_message();
  if (work.ready())
    answer_with(answer, work.result());
  else
    work.result().then([answer](const future<T>& done) mutable { answer_with(answer, done); });
  return {};
}

template <class F>
concept coroutine_handler = is_task<typename caf::detail::get_callable_trait<F>::result_type>;

}  // namespace troupe::detail

namespace caf {

namespace detail {

// What such a handler answers with.
template <class Y, class... Xs>
struct dmi<troupe::task<Y>(Xs...)> : dmi<Y(Xs...)> {
  static_assert(!(std::is_reference_v<Xs> || ...),
                "a handler that is a coroutine takes its message by value: it may go on when the "
                "message is gone");
};

}  // namespace detail

/// CAF calls handlers by this.
template <troupe::detail::coroutine_handler F>
class lfinvoker<false, F> {
public:
  lfinvoker(F& fun) : fun_(fun) {}

  template <class... Ts>
  response_promise operator()(Ts&&... xs) {
    return troupe::detail::answer_later(fun_(std::forward<Ts>(xs)...));
  }

private:
  F& fun_;
};

}  // namespace caf
