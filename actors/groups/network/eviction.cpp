#include "troupe/actors/groups/network/eviction.hpp"

#include <utility>

namespace troupe::groups::network {

namespace {

thread_local eviction* eviction_of_thread = nullptr;

}  // namespace

eviction::eviction() : before_(std::exchange(eviction_of_thread, this)) {}

eviction::~eviction() {
  eviction_of_thread = before_;
  for (const auto& work : deferred_) work();
}

bool eviction::defer(std::function<void()> work) {
  if (!eviction_of_thread) return false;
  eviction_of_thread->deferred_.push_back(std::move(work));
  return true;
}

}  // namespace troupe::groups::network
