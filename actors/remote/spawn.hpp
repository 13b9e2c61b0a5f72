#pragma once

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/infer_handle.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "troupe/actors/remote/actor_interface.hpp"
#include "troupe/actors/remote/actor_spawner.hpp"
#include "troupe/actors/remote/coroutine_handler.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/codec/signature.hpp"

namespace troupe {

namespace detail {

/// An actor that throws answers the request with the exception, and ends with it.
caf::error end_with_exception(caf::scheduled_actor* self, std::exception_ptr& thrown);

template <class Actor>
void answer_exceptions(Actor* self) {
  self->set_exception_handler([](caf::scheduled_actor* me, std::exception_ptr& thrown) {
    return end_with_exception(me, thrown);
  });
}

/// An actor class that works in the autograd context of what it is asked, also by CAF's own means.
template <class T>
class in_context : public T {
public:
  template <class... Args>
  explicit in_context(caf::actor_config& config, Args&&... args)
      : T(config, std::forward<Args>(args)...) {}

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* unit) override {
    if (auto mine = in_senders_context(std::move(what))) T::enqueue(std::move(mine), unit);
  }

  caf::invoke_message_result consume(caf::mailbox_element& what) override {
    const message_scope one(asked_, what);
    const auto done = T::consume(what);
    if (what.mid.is_response() && done != caf::invoke_message_result::skipped)
      asked_.forget(what.mid);
    return done;
  }

private:
  asked_contexts asked_;
};

/// An actor class that answers exceptions.
template <class T>
class guarded final : public in_context<T> {
public:
  template <class... Args>
  explicit guarded(caf::actor_config& config, Args&&... args)
      : in_context<T>(config, std::forward<Args>(args)...) {
    answer_exceptions(static_cast<T*>(this));
  }
};

// The arguments of a behaviour function, without the leading pointer to the actor itself.
template <class Tuple>
struct without_self {
  using type = Tuple;
  static constexpr bool takes_self = false;
};
template <class Self, class... Args>
requires std::is_base_of_v<caf::local_actor, Self>
struct without_self<std::tuple<Self*, Args...>> {
  using type = std::tuple<Args...>;
  static constexpr bool takes_self = true;
};

template <class T>
inline constexpr bool is_behavior = std::is_void_v<T> || std::is_same_v<T, caf::behavior>;
template <class... Sigs>
inline constexpr bool is_behavior<caf::typed_behavior<Sigs...>> = true;

/// Is F a behaviour function, and do the arguments fit it? Says why not.
template <class F, class... Args>
struct behavior_check {
  static constexpr bool known = requires { typename caf::detail::get_callable_trait<F>::type; };
  static_assert(known,
                "spawn takes a behaviour function, or a lambda without auto among its parameters, "
                "and its arguments; or an actor class, spawn<T>(arguments...)");

  static constexpr bool returns_behavior() {
    if constexpr (known)
      return is_behavior<typename caf::detail::get_callable_trait<F>::result_type>;
    else
      return true;
  }
  static_assert(returns_behavior(), "a behaviour function returns its actor's behavior_type");

  static constexpr bool fits() {
    if constexpr (known && returns_behavior())
      return std::is_invocable_v<const F&, caf::infer_impl_from_fun_t<F>*, Args...> ||
             std::is_invocable_v<const F&, Args...>;
    else
      return true;
  }
  static_assert(fits(),
                "the arguments do not fit the behaviour function's parameters, which are values or "
                "const references after the pointer to the actor");

  static constexpr bool ok = known && returns_behavior() && fits();
};

template <class F, class Arguments>
struct behavior_check_with;
template <class F, class... Args>
struct behavior_check_with<F, std::tuple<Args...>> : behavior_check<F, Args...> {};

/// Can the actor class T be made from such arguments?
template <class T, class... Args>
struct actor_class_check {
  static constexpr bool ok = std::is_constructible_v<T, caf::actor_config&, Args...>;
  static_assert(ok,
                "the actor class has no constructor for these arguments, after a "
                "caf::actor_config&");
};

/// Result of an invalid spawn: its use does not compile.
template <class F>
struct unspawnable {
  static_assert(!std::is_same_v<F, F>,
                "spawn_on takes the behaviour function as a template argument: "
                "spawn_on<&serve>(\"worker1\", arguments...)");
};

template <caf::spawn_options How = caf::no_spawn_options, class F, class... Args>
auto spawn_function(actor_spawner& spawner, F f, Args... args) {
  using impl = caf::infer_impl_from_fun_t<F>;
  using handle = caf::infer_handle_from_fun_t<F>;
  (void)interface_registration<handle>::done;
  return spawner.spawn([&](caf::actor_system& system) -> handle {
    // The unit is there because CAF would take arguments out of nothing if there were none.
    auto begin = [f](impl* self, const caf::unit_t&, Args... xs) {
      answer_exceptions(self);
      if constexpr (std::is_invocable_v<F, impl*, Args...>)
        return f(self, std::move(xs)...);
      else
        return f(std::move(xs)...);
    };
    caf::actor_config config;
    config.init_fun = caf::detail::init_fun_factory<impl, decltype(begin)>()(
        std::move(begin), caf::unit, std::move(args)...);
    return system.spawn_class<in_context<impl>, How>(config);
  });
}

template <class T, class... Args>
auto spawn_class(actor_spawner& spawner, Args... args) {
  static_assert(!std::is_final_v<T>,
                "an actor class must not be final: Troupe derives from it, so that its exceptions "
                "are answered and it works in the requester's autograd context");
  using handle = caf::infer_handle_from_class_t<T>;
  (void)interface_registration<handle>::done;
  return spawner.spawn([&](caf::actor_system& system) -> handle {
    return system.spawn<guarded<T>>(std::move(args)...);
  });
}

/// The spawner of the node whose handler the calling thread runs. Pre: it runs one.
actor_spawner& current_spawner() noexcept;

// What a node calls on another one to make an actor there.
template <auto F, class Arguments>
struct remote_spawn;

template <auto F, class... Args>
struct remote_spawn<F, std::tuple<Args...>> {
  static auto here(Args... args) {
    return spawn_function(current_spawner(), F, std::move(args)...);
  }
};

template <class T, class... Args>
struct remote_make {
  static auto here(Args... args) { return spawn_class<T>(current_spawner(), std::move(args)...); }
};

}  // namespace detail

}  // namespace troupe
