#include "troupe/actors/scheduler/lent_thread.hpp"

#include "troupe/actors/scheduler/thread_engine.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"

namespace troupe {

namespace {

thread_local constinit bool is_lent = false;

// Lends the calling thread, if it is an engine's and runs a handler.
thread_engine* lend_this_thread() noexcept {
  if (!self.owner || !self.may_block || is_lent) return nullptr;
  auto* const by = dynamic_cast<thread_engine*>(self.owner);
  return by && by->lend_thread() ? by : nullptr;
}

}  // namespace

lent_thread::lent_thread() noexcept : by_(lend_this_thread()) {
  if (by_) is_lent = true;
}

lent_thread::~lent_thread() {
  if (!by_) return;
  is_lent = false;
  by_->take_thread_back();
}

}  // namespace troupe
