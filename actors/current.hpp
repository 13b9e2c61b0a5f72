#pragma once

#include <cstdint>

namespace troupe {

class node_core;
class peer;

/// The node whose handler the calling thread runs; nullptr: none.
node_core* current_node() noexcept;

/// The id of the actor whose handler the calling thread runs; 0: none.
std::uint64_t current_actor() noexcept;

/// A call that a node serves: whose it is, and the caller's number for it.
struct served_call {
  const peer* from = nullptr;
  std::uint64_t request = 0;

  explicit operator bool() const noexcept { return from != nullptr; }
  bool operator==(const served_call&) const = default;
};

/// What a thread works for: a call, a distributed autograd context, both, or neither. Goes along
/// with a coroutine, from call to call, and back with their answers.
struct errand {
  served_call call{};
  std::uint64_t context = 0;  ///< 0: none
};

errand current_errand() noexcept;

/// The call for which the calling thread runs a function or coroutine; empty: none.
inline served_call current_call() noexcept { return current_errand().call; }

/// Has the caller given up the call that the calling thread serves? For functions that other nodes
/// call, their coroutines, and the tasks that these begin. False elsewhere.
bool call_cancelled() noexcept;

namespace detail {

void set_current_node(node_core* node) noexcept;
void set_current_actor(std::uint64_t id) noexcept;
void set_current_errand(const errand& what) noexcept;

/// While it lives, the calling thread works for that.
class serving {
public:
  explicit serving(const errand& what) noexcept : before_(current_errand()) {
    set_current_errand(what);
  }
  ~serving() { set_current_errand(before_); }
  serving(const serving&) = delete;
  serving& operator=(const serving&) = delete;

private:
  const errand before_;
};

}  // namespace detail

}  // namespace troupe
