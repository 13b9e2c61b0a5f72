#pragma once

#include <cstdint>

namespace troupe {

class node_core;

/// The node whose handler the calling thread runs; nullptr: none.
node_core* current_node() noexcept;

/// The id of the actor whose handler the calling thread runs; 0: none.
std::uint64_t current_actor() noexcept;

namespace detail {

void set_current_node(node_core* node) noexcept;
void set_current_actor(std::uint64_t id) noexcept;

}  // namespace detail

}  // namespace troupe
