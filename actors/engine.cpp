#include "actors/engine.hpp"

#include <utility>

#include "actors/thread_identity.hpp"

namespace troupe {

void engine_unit::exec_later(caf::resumable* job) {
  if (collecting_ && !next_) {
    next_ = job;
  } else {
    ++handed_on_;
    owner_.push(job);
  }
}

void engine_unit::exec_urgent(caf::resumable* job) {
  ++handed_on_;
  owner_.push_urgent(job);
}

expected_calls::scope::scope(const expected_calls& calls) noexcept
    : before_(std::exchange(self.expected, &calls)) {}
expected_calls::scope::~scope() { self.expected = before_; }

bool engine::wait_without_network(completion& what, clock::time_point deadline) {
  if (self.place) return self.place->hold(what, deadline);
  return what.wait(deadline);
}

bool engine::may_block() noexcept { return self.may_block; }

}  // namespace troupe
