#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

namespace detail {

class opened_context;

}  // namespace detail

class node_core;
class peer;

/// The node whose handler the calling thread runs; nullptr: none.
node_core* current_node() noexcept;

/// The id of the actor whose handler the calling thread runs; 0: none.
std::uint64_t current_actor() noexcept;

/// A call that a node serves: whose it is, and the caller's number for it.
struct active_call {
  const peer* from = nullptr;
  std::uint64_t request = 0;
  std::string_view function{};         ///< static text
  clock::time_point deadline = never;  ///< when its caller gives it up

  explicit operator bool() const noexcept { return from != nullptr; }
  /// Whose it is, and its number, say which it is.
  bool operator==(const active_call& other) const noexcept {
    return from == other.from && request == other.request;
  }
};

/// What a thread works for: a call, a distributed autograd context, both, or neither. Goes along
/// with a coroutine, from call to call, and back with their answers.
struct call_context {
  active_call call{};
  std::uint64_t context = 0;  ///< 0: none
  bool apart = false;         ///< none on purpose, whichever are open on the node
  /// The context is one that the thread, or the coroutine, has opened itself; null: it is not.
  std::shared_ptr<detail::opened_context> opened{};
};

/// Contexts that were opened here and have ended since are left out.
call_context current_call_context() noexcept;

/// The call for which the calling thread runs a function or coroutine; empty: none. See
/// `current_call` for what programs may know of it.
active_call current_active_call() noexcept;

/// Has the caller given up the call that the calling thread serves? For functions that other nodes
/// call, their coroutines, and the tasks that these begin. False elsewhere.
bool call_cancelled() noexcept;

namespace detail {

void set_current_node(node_core* node) noexcept;
void set_current_actor(std::uint64_t id) noexcept;
void set_current_call_context(call_context what) noexcept;
/// The thread works for nobody. Hot path: some loads where that is so already.
void clear_current_call_context() noexcept;

/// The context of the calling thread; 0: none. Hot path.
std::uint64_t current_context() noexcept;

/// Is the calling thread in no context on purpose?
bool works_apart() noexcept;

/// Does the calling thread run a handler, or what that has put off? Else what it asks of others is
/// the program's.
bool in_handler() noexcept;

/// While it lives, the calling thread makes a call that was put off until its arguments were there:
/// by the program, though the thread is a node's, or by a handler.
class put_off_call {
public:
  explicit put_off_call(bool by_program) noexcept;
  ~put_off_call();
  put_off_call(const put_off_call&) = delete;
  put_off_call& operator=(const put_off_call&) = delete;

private:
  const bool before_;
};

/// What the runtimes do for themselves: it belongs to no context.
inline call_context apart() noexcept {
  call_context out;
  out.apart = true;
  return out;
}

/// While it lives, the calling thread works for that.
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
