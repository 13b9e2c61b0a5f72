#pragma once

#include <caf/typed_actor.hpp>
#include <caf/typed_behavior.hpp>
#include <type_traits>

namespace troupe {

/// An actor's interface: `actor<answers<question, answer>, accepts<event>>`. An alias of
/// caf::typed_actor.
template <class... Sigs>
using actor = caf::typed_actor<Sigs...>;

/// The actor answers a Question with an Answer (void: with nothing, once it is done).
template <class Question, class Answer = void>
using answers = typename caf::replies_to<Question>::template with<Answer>;

/// The actor takes a Message and does not answer.
template <class Message>
using accepts = caf::reacts_to<Message>;

namespace detail {

/// Does an interface, or what is left of it, name such a question?
template <class Question, class... Sigs>
inline constexpr bool names_question = false;
template <class Question, class... Questions, class... Answers>
inline constexpr bool names_question<Question, caf::typed_mpi<Questions, Answers>...> =
    (std::is_same_v<Question, Questions> || ...);

}  // namespace detail

}  // namespace troupe

// CAF counts the handlers of a behaviour, from 0 on, and prints the one that does not fit. These
// say why it does not, before that.
#define TROUPE_HANDLER(place)                                                                      \
  template <int Count, class In, class Out, class... Xs, class... Ys>                              \
  struct caf::detail::static_error_printer<Count, place,                                           \
                                           caf::detail::type_list<caf::typed_mpi<In, Out>, Xs...>, \
                                           caf::detail::type_list<Ys...>> {                        \
    static_assert(!troupe::detail::names_question<In, Ys...>,                                      \
                  "a handler returns another type than its actor's interface says, "               \
                  "answers<Question, Answer>, or returns one where that is accepts<Message>");     \
    static_assert(troupe::detail::names_question<In, Ys...>,                                       \
                  "a handler takes a message that its actor's interface does not name, or "        \
                  "that another handler takes already");                                           \
  };
TROUPE_HANDLER(0)
TROUPE_HANDLER(1)
TROUPE_HANDLER(2)
TROUPE_HANDLER(3)
TROUPE_HANDLER(4)
TROUPE_HANDLER(5)
TROUPE_HANDLER(6)
TROUPE_HANDLER(7)
TROUPE_HANDLER(8)
TROUPE_HANDLER(9)
TROUPE_HANDLER(10)
TROUPE_HANDLER(11)
TROUPE_HANDLER(12)
TROUPE_HANDLER(13)
TROUPE_HANDLER(14)
TROUPE_HANDLER(15)
TROUPE_HANDLER(16)
TROUPE_HANDLER(17)
TROUPE_HANDLER(18)
TROUPE_HANDLER(19)
TROUPE_HANDLER(20)
#undef TROUPE_HANDLER
