#pragma once

#include <string>

#include "actors/future.hpp"
#include "actors/reply.hpp"
#include "messages/archive.hpp"
#include "messages/type_table.hpp"

namespace troupe {

/// A function that other nodes may call.
struct function_entry {
  std::uint64_t hash;
  std::string_view name;
  /// Reads the arguments, calls, and sees to the answer. Throws what the function throws.
  void (*invoke)(decoder& in, reply_token&& reply);
};

/// Enters a function; harmless when it is there already. Throws internal_error when another
/// function has the same name and type (two static functions of different files, say).
bool add_function(const function_entry& entry);

/// nullptr: this program has no such function.
const function_entry* find_function(std::uint64_t hash) noexcept;

namespace detail {

template <class F>
struct signature {
  static_assert(!std::is_same_v<F, F>,
                "only a plain function can be called from another node, as in "
                "rpc_sync<&f>(\"worker1\", x): no lambda, functor or member function");
};

template <class R, class... Args>
struct signature<R (*)(Args...)> {
  using result = R;
  using arguments = std::tuple<std::decay_t<Args>...>;
  static constexpr std::size_t arity = sizeof...(Args);
};
template <class R, class... Args>
struct signature<R (*)(Args...) noexcept> : signature<R (*)(Args...)> {};

// What a caller of a function gets: a function that answers later returns a future.
template <class T>
struct answer_of {
  using type = T;
  static constexpr bool later = false;
};
template <class T>
struct answer_of<future<T>> {
  using type = T;
  static constexpr bool later = true;
};

}  // namespace detail

/// The function F as something to be called from elsewhere.
template <auto F>
struct callable {
  using function = detail::signature<decltype(F)>;
  using returned = std::remove_cvref_t<typename function::result>;
  using answer = typename detail::answer_of<returned>::type;
  using arguments = typename function::arguments;

  static constexpr std::string_view name = function_name<F>();
  static constexpr std::uint64_t hash = hash_name(type_name<decltype(F)>(), hash_name(name));

  static void invoke(decoder& in, reply_token&& reply) {
    auto args = read(in, static_cast<arguments*>(nullptr));
    in.expect_end();
    if constexpr (detail::answer_of<returned>::later) {
      // A coroutine may refer to them until it has an answer.
      struct call {
        arguments args;
        reply_token reply;
      };
      auto kept = std::make_shared<call>(std::move(args), std::move(reply));
      try {
        const future<answer> later = std::apply(F, std::move(kept->args));
        later.state();  // throws when it belongs to no call
        auto state = later.shared();
        state->when_ready(
            detail::make_continuation([state, kept] { finish(*state, kept->reply); }));
      } catch (...) {
        kept->reply.fail(std::current_exception());
      }
    } else if constexpr (std::is_void_v<typename function::result>) {
      std::apply(F, std::move(args));
      reply.value([](encoder&) {});
    } else {
      const auto& result = std::apply(F, std::move(args));
      reply.value([&](encoder& out) { out.put(result); });
    }
  }

  /// Named wherever F is called from, so that every program that has the call has the entry.
  static const bool registered;

private:
  template <class... Args>
  static arguments read(decoder& in, std::tuple<Args...>*) {
    return arguments{in.get<Args>()...};  // braces: from left to right
  }

  static void finish(detail::future_state<answer>& state, reply_token& reply) noexcept {
    if (state.failure())
      reply.fail(state.failure());
    else if constexpr (std::is_void_v<answer>)
      reply.value([](encoder&) {});
    else
      reply.value([&](encoder& out) { out.put(*state.value()); });
  }
};

namespace detail {

template <auto F>
inline constexpr function_entry entry_of_function{callable<F>::hash, callable<F>::name,
                                                  &callable<F>::invoke};

}  // namespace detail

template <auto F>
const bool callable<F>::registered = add_function(detail::entry_of_function<F>);

}  // namespace troupe
