#include "troupe/autograd/pass/pass_worker_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/inline_run.hpp"
#include "troupe/actors/remote/spawn.hpp"
#include "troupe/autograd/pass/pass_actor.hpp"
#include "troupe/autograd/pass/pass_worker_state.hpp"

namespace troupe::autograd::detail {

namespace {

// Is this the only reference to the actor? Then nobody can send it a message any more, and it does
// not run either: an actor that is scheduled or runs holds a reference to itself.
bool is_unshared(const pass_worker& one) { return one.actor->strong_refs.load() == 1; }

}  // namespace

pass_worker pass_worker_pool::take(std::shared_ptr<participant> part) {
  pass_worker one;
  {
    const std::lock_guard lock(mutex_);
    // A thread that was late with a message for its last context may hold it for a moment. Then a
    // new one is made rather than waited for.
    if (!idle_.empty() && is_unshared(idle_.back())) {
      one = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  auto state = one.state.lock();
  if (!state || !state->is_free()) {  // none was idle, or it has not taken its leave_context
    state = std::make_shared<pass_worker_state>(node_);
    one.actor = caf::actor_cast<caf::strong_actor_ptr>(
        troupe::detail::spawn_function<caf::lazy_init>(node_.spawner(), &run_passes, state));
    one.state = state;
  }
  state->attach(std::move(part));
  return one;
}

void pass_worker_pool::take_back(pass_worker&& one) noexcept {
  try {
    const bool open =
        troupe::detail::notify_inline(node_, one.actor, caf::make_message(leave_context{}));
    const std::lock_guard lock(mutex_);
    if (open && !closed_ && idle_.size() < most_idle) {
      idle_.push_back(std::move(one));
      return;
    }
  } catch (const std::bad_alloc&) {
    return;  // it ends when nobody has a handle of it any more
  }
  troupe::detail::end_inline(node_, one.actor);
}

std::size_t pass_worker_pool::count_free() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(idle_.begin(), idle_.end(), &is_unshared));
}

void pass_worker_pool::close() {
  decltype(idle_) idle;  // declared first: released without the lock
  const std::lock_guard lock(mutex_);
  closed_ = true;
  idle.swap(idle_);
}

}  // namespace troupe::autograd::detail
