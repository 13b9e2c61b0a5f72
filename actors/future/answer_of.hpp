#pragma once

#include "troupe/actors/future/future.hpp"

namespace troupe::detail {

/// What the caller of a function that returns T gets. `later`: the function answers later, by a
/// future or a task.
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

}  // namespace troupe::detail
