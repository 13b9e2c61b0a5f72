#pragma once

#include <string>

#include "troupe/actors/future/answer_of.hpp"
#include "troupe/actors/future/combinators.hpp"
#include "troupe/actors/remote/handle_scope.hpp"
#include "troupe/actors/rpc/reply.hpp"
#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/codec/signature.hpp"
#include "troupe/messages/codec/type_registration.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe {

/// A function that other nodes may call.
struct function_entry {
  std::uint64_t
      hash;  ///< its identity: of its name, and of what its arguments and answer are made of
  std::string_view name;
  /// Reads the arguments, calls, and sees to the answer. Throws what the function throws.
  void (*invoke)(decoder& in, handle_scope& handles, reply_token&& reply);
  /// Reads the arguments and drops them, since what they hold has been given away by the caller.
  void (*skip)(decoder& in);
  std::string (*structure)();  ///< see type_structure
  /// Reads the name of what is called, where each call says that itself. nullptr: it is `name`.
  std::string (*called)(decoder& in) = nullptr;
};

/// Enters a function; harmless when it is there already. Throws internal_error when another
/// function has the same name and type (two static functions of different files, say).
bool add_function(const function_entry& entry);

/// nullptr: this program has no function of such a name and type. The one that is found takes or
/// answers other types, of the same names, if its hash is not the same.
const function_entry* find_function(std::uint64_t hash) noexcept;

namespace detail {

/// The identity of a callable, which costs something once.
template <class Callable>
std::uint64_t kept_identity() {
  if constexpr (Callable::structure::any) {
    static const auto identity = Callable::structure::identity(Callable::name_hash());
    return identity;
  } else {
    return identity_of(Callable::name_hash(), 0);
  }
}

template <class... Args>
std::tuple<Args...> read_tuple(decoder& in, std::tuple<Args...>*) {
  return std::tuple<Args...>{in.get<Args>()...};  // braces: from left to right
}

/// The arguments, which are all that is left. Their tensors are held by nothing else from here on.
template <class Arguments>
Arguments read_arguments(decoder& in) {
  auto args = read_tuple(in, static_cast<Arguments*>(nullptr));
  in.expect_end();
  in.let_tensors_go();
  return args;
}

/// Writes a result, which ends then: what it holds of others is theirs again with the answer.
template <class T>
void put_and_drop(encoder& out, T& result) {
  out.put_given(std::as_const(result));
  if constexpr (!std::is_trivially_destructible_v<T>) [[maybe_unused]]
    const T ended = std::move(result);
}

}  // namespace detail

/// The function F, or lambda, as something to be called from elsewhere.
template <auto F>
struct callable {
  using function = detail::signature<std::remove_const_t<decltype(F)>>;
  using returned = std::remove_cvref_t<typename function::result>;
  using answer = typename detail::answer_of<returned>::type;
  using arguments = typename function::arguments;

  static constexpr std::string_view name = function_name<F>();
  using structure = detail::structure<arguments, answer>;
  static std::uint64_t hash() { return detail::kept_identity<callable>(); }
  static std::uint64_t name_hash() { return detail::function_hash<F>(); }

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    std::optional<arguments> args;
    try {
      args.emplace(detail::read_arguments<arguments>(in));
    } catch (...) {
      return reply.fail_unread(std::current_exception());
    }
    auto claims = handles.take_claims();
    if (claims.empty()) return run(std::move(*args), std::move(reply));
    auto kept = std::make_shared<call>(std::move(*args), std::move(reply));
    detail::after(std::move(claims), [kept](const std::exception_ptr& failure) {
      const detail::begun_later now(kept->reply);
      const detail::handler_streams devices(kept->devices.get());
      try {
        if (failure) std::rethrow_exception(failure);
        if (const auto why = kept->reply.cancelled()) std::rethrow_exception(why);
        run(std::move(kept->args), std::move(kept->reply));
      } catch (...) {
        kept->reply.fail(std::current_exception());
      }
    });
  }

  static void skip(decoder& in) { detail::read_arguments<arguments>(in); }

  /// Named wherever F is called from, so that every program that has the call has the entry.
  static const bool registered;

private:
  struct call {
    arguments args;
    reply_token reply;
    std::shared_ptr<const detail::device_work> devices = detail::current_work();
  };

  static void run(arguments&& args, reply_token&& reply) {
    if constexpr (detail::answer_of<returned>::later) {
      // A coroutine may refer to them until it has an answer.
      auto kept = std::make_shared<call>(std::move(args), std::move(reply));
      try {
        const future<answer> later = std::apply(F, std::move(kept->args));
        later.state();  // throws when it belongs to no call
        const auto& state = later.shared();
        if (state->ready()) return finish(*state, kept->reply);
        kept->reply.comes_from(state);
        state->when_ready(
            detail::make_continuation([state, kept] { finish(*state, kept->reply); }));
      } catch (...) {
        kept->reply.fail(std::current_exception());
      }
    } else if constexpr (std::is_void_v<typename function::result>) {
      call_and_drop(std::move(args));
      reply.done();
    } else if constexpr (std::is_reference_v<typename function::result>) {
      const auto& result = std::apply(F, std::move(args));  // perhaps one of the arguments
      reply.value([&](encoder& out) { out.put(result); });
    } else {
      auto result = call_and_drop(std::move(args));
      reply.value([&](encoder& out) { detail::put_and_drop(out, result); });
    }
  }

  // The arguments have ended before the answer goes: it tells their lenders so.
  static typename function::result call_and_drop(arguments&& args) {
    if constexpr (std::is_trivially_destructible_v<arguments>) {
      return std::apply(F, std::move(args));
    } else {
      auto given = std::move(args);
      return std::apply(F, std::move(given));
    }
  }

  static void finish(detail::future_state<answer>& state, reply_token& reply) noexcept {
    if (state.failure())
      reply.fail(state.failure());
    else if constexpr (std::is_void_v<answer>)
      reply.done();
    else
      reply.value([&](encoder& out) { out.put(*state.value()); });
  }
};

namespace detail {

/// The one entry of a callable.
template <class Callable>
const function_entry& function_entry_of() {
  static const function_entry entry = [] {
    function_entry one{Callable::hash(), Callable::name, &Callable::invoke, &Callable::skip,
                       &Callable::structure::text};
    if constexpr (requires { &Callable::called; }) one.called = &Callable::called;
    return one;
  }();
  return entry;
}

}  // namespace detail

template <auto F>
const bool callable<F>::registered = add_function(detail::function_entry_of<callable<F>>());

}  // namespace troupe
