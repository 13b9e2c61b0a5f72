#include "troupe/actors/scheduler/execution_context.hpp"

#include <utility>

#include "troupe/actors/scheduler/opened_context.hpp"

namespace troupe {

namespace {

thread_local node_context* node_here = nullptr;
thread_local std::uint64_t actor_here = 0;
thread_local bool for_program_here = false;

// Without a destructor, so that looking at it needs no guard.
struct plain_call_context {
  active_call call{};
  std::uint64_t context = 0;
  bool apart = false;
  bool opened = false;  // there is one in the slot
};
constinit thread_local plain_call_context call_context_here;

struct opened_slot {
  std::shared_ptr<detail::opened_context> of;
  ~opened_slot() { call_context_here.opened = false; }
};
thread_local opened_slot slot_here;

void put(call_context&& what) noexcept {
  const bool before = call_context_here.opened;
  call_context_here = {what.call, what.context, what.apart, what.opened != nullptr};
  if (before || what.opened) slot_here.of.swap(what.opened);
}

void leave_ended() noexcept {
  if (!slot_here.of->over()) {
    call_context_here.context = slot_here.of->id();  // it may have been renewed
    return;
  }
  call_context now;
  now.opened = slot_here.of;
  now = detail::opened_context::living(std::move(now));
  now.call = call_context_here.call;
  put(std::move(now));
}

}  // namespace

node_context* current_node_context() noexcept { return node_here; }
std::uint64_t current_actor() noexcept { return actor_here; }
active_call current_active_call() noexcept { return call_context_here.call; }

call_context current_call_context() noexcept {
  if (call_context_here.opened) leave_ended();
  call_context out{call_context_here.call, call_context_here.context, call_context_here.apart};
  if (call_context_here.opened) out.opened = slot_here.of;
  return out;
}

namespace detail {

void set_current_node(node_context* node) noexcept { node_here = node; }
void set_current_actor(std::uint64_t id) noexcept { actor_here = id; }
void set_current_call_context(call_context what) noexcept { put(std::move(what)); }
void clear_current_call_context() noexcept {
  const auto& now = call_context_here;
  if (now.call || now.context != 0 || now.apart || now.opened) put({});
}

bool in_handler() noexcept { return node_here && !for_program_here; }

put_off_call::put_off_call(bool by_program) noexcept
    : before_(std::exchange(for_program_here, by_program)) {}
put_off_call::~put_off_call() { for_program_here = before_; }

std::uint64_t current_context() noexcept {
  if (call_context_here.opened) leave_ended();
  return call_context_here.context;
}

bool works_apart() noexcept {
  if (call_context_here.opened) leave_ended();
  return call_context_here.apart;
}

}  // namespace detail

}  // namespace troupe
