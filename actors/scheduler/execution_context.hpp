#pragma once

#include <cstdint>
#include <utility>

#include "troupe/actors/scheduler/call_context.hpp"

namespace troupe {

class node_context;

/// The node whose handler the calling thread runs; nullptr: none.
node_context* current_node_context() noexcept;

/// The id of the actor whose handler the calling thread runs; 0: none.
std::uint64_t current_actor() noexcept;

/// What the calling thread works for. Contexts that were opened here and have ended since are left
/// out.
call_context current_call_context() noexcept;

/// The call for which the calling thread runs a function or coroutine; empty: none. See
/// `current_call` for what programs may know of it.
active_call current_active_call() noexcept;

namespace detail {

/// Until the next call of these, the calling thread runs a handler of that node, of that actor.
void set_current_node(node_context* node) noexcept;
void set_current_actor(std::uint64_t id) noexcept;
void set_current_call_context(call_context what) noexcept;
/// The calling thread works for no call and no context. Hot path: some loads where that is so
/// already.
void clear_current_call_context() noexcept;

/// The distributed autograd context of the calling thread; 0: none. Hot path.
std::uint64_t current_context() noexcept;

/// Is the calling thread in no context on purpose?
bool works_apart() noexcept;

/// Does the calling thread run a handler, or a call that a handler has put off? Otherwise its
/// requests count as the program's.
bool in_handler() noexcept;

/// While it lives, the calling thread makes a call that was put off until its arguments were ready.
/// `by_program`: the call counts as the program's, although a thread of a node makes it.
class put_off_call {
public:
  explicit put_off_call(bool by_program) noexcept;
  ~put_off_call();
  put_off_call(const put_off_call&) = delete;
  put_off_call& operator=(const put_off_call&) = delete;

private:
  const bool before_;
};

/// The call context of the runtime's own work: no call, and no autograd context.
inline call_context apart() noexcept {
  call_context out;
  out.apart = true;
  return out;
}

/// While it lives, the calling thread works for `what`.
class call_context_scope {
public:
  explicit call_context_scope(call_context what) noexcept : before_(current_call_context()) {
    set_current_call_context(std::move(what));
  }
  ~call_context_scope() { set_current_call_context(std::move(before_)); }
  call_context_scope(const call_context_scope&) = delete;
  call_context_scope& operator=(const call_context_scope&) = delete;

private:
  call_context before_;
};

}  // namespace detail

}  // namespace troupe
