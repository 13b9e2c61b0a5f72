#include "troupe/actors/telemetry/profile.hpp"

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/profiling/event_collector.hpp"

namespace troupe {

profile::profile(const node& of, const profile_options& what)
    : events_(std::make_shared<detail::event_collector>(of.rank(), what)) {
  if (detail::collecting::here() ||
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))
    throw invalid_argument("this thread is profiled already: end that profile first");
  here_ = std::make_unique<detail::collecting>(events_);
}

profile::~profile() = default;

std::vector<profile_event> profile::stop() {
  if (std::this_thread::get_id() != thread_)
    throw invalid_argument("a profile must end on the thread that began it");
  here_ = nullptr;
  return events_->close();
}

}  // namespace troupe
