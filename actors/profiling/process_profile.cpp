#include "troupe/actors/profiling/process_profile.hpp"

#include <mutex>
#include <utility>

#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

struct process_slot {
  std::mutex mutex;
  std::shared_ptr<detail::event_collector> events;
};

// Never destroyed: handlers may still run while the process exits.
process_slot& slot_of_process() {
  static auto& one = *new process_slot;
  return one;
}

}  // namespace

std::shared_ptr<detail::event_collector> detail::process_collector() {
  auto& slot = slot_of_process();
  const std::lock_guard lock(slot.mutex);
  return slot.events;
}

server_process_global_profile::server_process_global_profile(const profile_options& what)
    : events_(std::make_shared<detail::event_collector>(0, what)) {
  auto& slot = slot_of_process();
  const std::lock_guard lock(slot.mutex);
  if (slot.events)
    throw invalid_argument(
        "this process is profiled already: one server_process_global_profile at a time, which ends "
        "with `stop` or its scope");
  slot.events = events_;
  detail::process_is_profiled.store(true, std::memory_order_relaxed);
}

server_process_global_profile::~server_process_global_profile() { stop(); }

std::vector<profile_event> server_process_global_profile::stop() {
  const auto mine = std::exchange(events_, nullptr);
  if (!mine) return {};
  {
    auto& slot = slot_of_process();
    const std::lock_guard lock(slot.mutex);
    detail::process_is_profiled.store(false, std::memory_order_relaxed);
    slot.events = nullptr;
  }
  return mine->close();
}

}  // namespace troupe
