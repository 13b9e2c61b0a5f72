#include "actors/current.hpp"

namespace troupe {

namespace {

thread_local node_core* node_here = nullptr;
thread_local std::uint64_t actor_here = 0;
constinit thread_local errand errand_here;

}  // namespace

node_core* current_node() noexcept { return node_here; }
std::uint64_t current_actor() noexcept { return actor_here; }
errand current_errand() noexcept { return errand_here; }

namespace detail {

void set_current_node(node_core* node) noexcept { node_here = node; }
void set_current_actor(std::uint64_t id) noexcept { actor_here = id; }
void set_current_errand(const errand& what) noexcept { errand_here = what; }

}  // namespace detail

}  // namespace troupe
