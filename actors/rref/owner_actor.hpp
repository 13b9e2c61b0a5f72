#pragma once

#include "troupe/actors/remote/spawn.hpp"
#include "troupe/actors/rref/rref_table.hpp"

// The actor that stands for a value: `rref::owner_actor`.
namespace troupe {

template <class T>
class rref;

/// The request that an rref_owner answers with the value.
struct get_value {};
TROUPE_MESSAGE_EXTERN(get_value)

/// The actor that stands for a value on its owner: it lives while the value has a reference
/// anywhere, or the actor a handle. Whoever monitors it is notified of the value's end.
template <class T>
using rref_owner = actor<answers<get_value, T>>;

namespace detail {

/// The behaviour of an owner's actor.
template <class T>
typename rref_owner<T>::behavior_type be_owner(std::shared_ptr<future_state<T>> value) {
  return {[value](get_value) -> T {
    const future<T> there(value);
    return there.get();
  }};
}

/// The actor of a value of this node: called on the owner.
template <class T>
rref_owner<T> own_actor(rref<T> of) {
  auto made = of.core()->table().actor(of.id(), [&] {
    return caf::actor_cast<caf::strong_actor_ptr>(
        spawn_function(current_spawner(), &be_owner<T>, of.value_state({})));
  });
  return caf::actor_cast<rref_owner<T>>(made);
}

}  // namespace detail

}  // namespace troupe
