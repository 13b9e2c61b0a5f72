#pragma once

#include <caf/typed_actor.hpp>

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

}  // namespace troupe
