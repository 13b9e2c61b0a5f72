#pragma once

#include "troupe/optim/algorithms/kind.hpp"
#include "troupe/optim/shard/shard_messages.hpp"

namespace troupe::detail {

/// Makes the shard of an optimizer of that class on the current node, and spawns its actor, which
/// lives as long as there is a handle to it. Throws what the constructor of `shard` throws.
shard_actor make_shard_of(const optimizer_kind& kind, const shard_plan& plan);

/// The same, as a function that can be called on the owner of the parameters.
// Of a class template: clang writes no arguments of a function template, and functions go by their
// names.
template <class Optimizer>
struct shard_maker {
  static shard_actor make_shard(const shard_plan& plan) {
    return make_shard_of(kind_of<Optimizer>, plan);
  }
};

}  // namespace troupe::detail
