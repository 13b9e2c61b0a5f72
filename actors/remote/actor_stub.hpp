#pragma once

#include "troupe/actors/remote/request.hpp"

namespace troupe {

namespace detail {

/// What a signature of an interface takes; void: it is no single message.
template <class Signature>
struct question_of {
  using type = void;
};
template <class Question, class Answer>
struct question_of<caf::typed_mpi<caf::detail::type_list<Question>, Answer>> {
  using type = Question;
};

template <class Member>
struct field_of;
template <class T, class Field>
struct field_of<Field T::*> {
  using type = Field;
};

/// The fields of a message, as pointers to them.
template <class Message>
using fields_of = decltype(troupe_fields(static_cast<const Message*>(nullptr)));

template <class Fields, class Args, std::size_t... I>
constexpr bool fits(std::index_sequence<I...>) {
  return (std::is_convertible_v<const std::tuple_element_t<I, Args>&,
                                typename field_of<std::tuple_element_t<I, Fields>>::type> &&
          ...);
}

/// Can a Message be made from arguments of these types (a tuple): from a Message, or from all of
/// its fields in their order?
template <class Message, class Args>
constexpr bool is_made_from() {
  if constexpr (std::is_void_v<Message>) {
    return false;
  } else if constexpr (std::is_same_v<Args, std::tuple<Message>>) {
    return true;
  } else if constexpr (has_fields<Message>) {
    using fields = fields_of<Message>;
    if constexpr (std::tuple_size_v<fields> == std::tuple_size_v<Args>)
      return fits<fields, Args>(std::make_index_sequence<std::tuple_size_v<Args>>());
    else
      return false;
  } else {
    return false;
  }
}

/// The messages of an interface that are made from such arguments.
template <class Signatures, class Args>
struct questions_from;
template <class... Signatures, class Args>
struct questions_from<caf::detail::type_list<Signatures...>, Args> {
  static constexpr std::size_t count =
      (std::size_t{is_made_from<typename question_of<Signatures>::type, Args>()} + ... + 0);

  /// The first of them; void: there is none.
  template <class Question, class... Rest>
  static constexpr auto pick() {
    if constexpr (is_made_from<Question, Args>())
      return std::type_identity<Question>();
    else if constexpr (sizeof...(Rest) > 0)
      return pick<Rest...>();
    else
      return std::type_identity<void>();
  }
  using first = typename decltype(pick<typename question_of<Signatures>::type...>())::type;
};

/// The arguments that are no options, as a tuple of their types.
template <class Args, class Places>
struct first_of;
template <class Args, std::size_t... I>
struct first_of<Args, std::index_sequence<I...>> {
  using type = std::tuple<std::tuple_element_t<I, Args>...>;
};
template <class... Args>
using places_of_values = std::make_index_sequence<sizeof...(Args) - option_count<Args...>>;
template <class... Args>
using values_among = typename first_of<std::tuple<Args...>, places_of_values<Args...>>::type;

template <class Interface, class... Args>
using questions_with = questions_from<typename Interface::signatures, values_among<Args...>>;

template <class Message, class Signatures>
inline constexpr bool is_asked_in = false;
template <class Message, class... Signatures>
inline constexpr bool is_asked_in<Message, caf::detail::type_list<Signatures...>> =
    (std::is_same_v<Message, typename question_of<Signatures>::type> || ...);

/// A message of the first arguments.
template <class Message, class All, std::size_t... I>
Message message_from([[maybe_unused]] const All& all, std::index_sequence<I...>) {
  using given = std::tuple<std::remove_cvref_t<std::tuple_element_t<I, All>>...>;
  if constexpr (std::is_same_v<given, std::tuple<Message>>) {
    return std::get<0>(all);
  } else {
    Message out{};
    [[maybe_unused]] constexpr auto fields = troupe_fields(static_cast<const Message*>(nullptr));
    ((out.*std::get<I>(fields) =
          static_cast<std::remove_cvref_t<decltype(out.*std::get<I>(fields))>>(std::get<I>(all))),
     ...);
    return out;
  }
}

}  // namespace detail

/// Exactly one message of the interface is made from such arguments, behind which options may
/// stand: from all its fields in their order, or from itself.
template <class Interface, class... Args>
concept one_question_from = detail::questions_with<Interface, Args...>::count == 1;

/// The interface has that message, and it is made from such arguments.
template <class Interface, class Message, class... Args>
concept question_from = detail::is_asked_in<Message, typename Interface::signatures> &&
    detail::is_made_from<Message, detail::values_among<Args...>>();

/// An actor that knows all messages of the interface, and answers them alike.
template <class Actor, class Interface>
concept has_interface = caf::is_typed_actor<Actor>::value &&
    caf::detail::tl_subset_of<typename Interface::signatures, typename Actor::signatures>::value;

/// A typed actor as something to call, wherever it lives: the compiler makes the calls from the
/// interface. What does not fit it, arguments or another actor's handle, does not compile.
/// `Interface` is an `actor<...>`. Sendable; it keeps the actor, as handles do. Thread-safe.
template <class Interface>
class actor_stub {
public:
  actor_stub() = default;
  template <class Actor>
  requires has_interface<Actor, Interface> actor_stub(const Actor& handle)
      : handle_(handle) {}  // a handle is one

  /// Asks with the message that is made from the arguments, and waits for the answer. A `timeout`,
  /// a `priority` and `no_wait` may follow. Throws like a request's future; invalid_argument when
  /// the stub is empty.
  template <class... Args>
  requires one_question_from<Interface, Args...>
  auto forward(const Args&... args) const { return forward_async(args..., detail::sync).get(); }

  /// The same without waiting.
  template <class... Args>
  requires one_question_from<Interface, Args...>
  auto forward_async(const Args&... args) const {
    return ask<typename detail::questions_with<Interface, Args...>::first>(args...);
  }

  /// The same with a message that is named, where several could be meant.
  template <class Message, class... Args>
  requires question_from<Interface, Message, Args...>
  auto call(const Args&... args) const { return call_async<Message>(args..., detail::sync).get(); }
  template <class Message, class... Args>
  requires question_from<Interface, Message, Args...>
  auto call_async(const Args&... args) const { return ask<Message>(args...); }

  /// For CAF's own means, and `send`.
  const Interface& handle() const noexcept { return handle_; }

  /// Does it stand for an actor?
  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

private:
  template <class Message, class... Args>
  auto ask(const Args&... args) const {
    return request(
        handle_,
        detail::message_from<Message>(std::tie(args...), detail::places_of_values<Args...>()),
        detail::options_in(args...));
  }

  friend constexpr auto troupe_fields(const actor_stub*) {
    return std::make_tuple(&actor_stub::handle_);
  }

  Interface handle_;
};

template <class... Signatures>
actor_stub(const caf::typed_actor<Signatures...>&) -> actor_stub<caf::typed_actor<Signatures...>>;

}  // namespace troupe
