#pragma once

#include "troupe/optim/shard/shard.hpp"

namespace troupe::detail {

/// Takes over a shard on this node. It lives as long as there is a handle of it.
shard_actor spawn_shard(node_core& here, std::shared_ptr<shard> what);

/// What is called on an owner: makes its shard of an `Optimizer`. Throws what `shard` throws.
template <class Optimizer>
shard_actor make_shard(const shard_plan& plan) {
  auto& here = *current_node();
  return spawn_shard(here, std::make_shared<shard>(here, kind_of<Optimizer>, plan));
}

}  // namespace troupe::detail
