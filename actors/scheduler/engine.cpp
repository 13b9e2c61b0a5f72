#include "troupe/actors/scheduler/engine.hpp"

#include <utility>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"

namespace troupe {

void engine_unit::exec_later(caf::resumable* item) {
  if (collecting_ && !next_) {
    next_ = item;
  } else {
    ++handed_on_;
    owner_.push(item);
  }
}

void engine_unit::exec_urgent(caf::resumable* item) {
  ++handed_on_;
  owner_.push_urgent(item);
}

expected_calls::scope::scope(const expected_calls& calls) noexcept
    : before_(std::exchange(self.expected, &calls)) {}
expected_calls::scope::~scope() { self.expected = before_; }

foreign_run_scope::foreign_run_scope(engine& of) noexcept
    : of_(of),
      before_(std::exchange(self.runs, this)),
      node_(current_node_context()),
      actor_(current_actor()) {
  of_.foreign_run_begins();
}
foreign_run_scope::~foreign_run_scope() {
  of_.foreign_run_ends();
  self.runs = before_;
}

bool engine::runs_here() const noexcept {
  if (is_own_thread()) return true;
  for (auto* one = self.runs; one; one = one->before_)
    if (&one->of_ == this) return true;
  return false;
}

bool engine::runs_actor(const node_context& node, std::uint64_t actor) noexcept {
  if (current_node_context() == &node && current_actor() == actor) return true;
  for (auto* one = self.runs; one; one = one->before_)
    if (one->node_ == &node && one->actor_ == actor) return true;
  return false;
}

bool engine::wait_without_network(completion& what, clock::time_point deadline) {
  if (self.place) return self.place->block_until(what, deadline);
  return what.wait(deadline);
}

bool engine::may_block() noexcept { return self.may_block; }

}  // namespace troupe
