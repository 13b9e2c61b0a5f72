#include "actors/profiling/event_collector.hpp"

#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <chrono>

namespace troupe::detail {

namespace {

// What the calling thread collects.
struct collected_here {
  event_collector* into = nullptr;
  std::int64_t host_bytes = 0, device_bytes = 0;  // since the thread began
};
constinit thread_local collected_here collected;

// A range that has begun.
struct begun_range final : at::ObserverContext {
  std::shared_ptr<event_collector> into;
  profile_event event;
  std::int64_t host_before = 0, device_before = 0;
};

std::unique_ptr<at::ObserverContext> range_begins(const at::RecordFunction& range) {
  if (!collected.into) return nullptr;
  auto begun = std::make_unique<begun_range>();
  begun->into = collected.into->shared_from_this();
  auto& event = begun->event;
  event.name = range.name();
  event.node = begun->into->node;
  event.thread = at::RecordFunction::currentThreadId();
  event.number = range.seqNr();
  if (begun->into->what.shapes && range.needsInputs())
    event.shapes = torch::profiler::impl::inputSizes(range);
  begun->host_before = collected.host_bytes;
  begun->device_before = collected.device_bytes;
  event.start_ns = profile_time();
  return begun;
}

void range_ends(const at::RecordFunction& range, at::ObserverContext* context) {
  if (!context) return;
  auto& begun = static_cast<begun_range&>(*context);
  auto& event = begun.event;
  event.duration_ns = std::max<std::int64_t>(profile_time() - event.start_ns, 0);
  event.async = range.isAsync();
  if (!event.async) {
    event.host_bytes = collected.host_bytes - begun.host_before;
    event.device_bytes = collected.device_bytes - begun.device_before;
  }
  begun.into->add(std::move(event));
}

// Takes the place of a profiler's state, from which libtorch's allocators know whom to tell. It is
// a disabled one for all else.
class memory_meter final : public torch::profiler::impl::ProfilerStateBase {
public:
  memory_meter()
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
            torch::profiler::impl::ProfilerState::Disabled, false, /*profile_memory=*/true)) {}

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                         c10::Device device) override {
    (device.is_cpu() ? collected.host_bytes : collected.device_bytes) += size;
  }
};

}  // namespace

std::int64_t profile_time() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void event_collector::add(profile_event&& one) {
  const std::lock_guard lock(mutex_);
  if (!closed_) events_.push_back(std::move(one));
}

void event_collector::add(const std::vector<profile_event>& many) {
  const std::lock_guard lock(mutex_);
  if (!closed_) events_.insert(events_.end(), many.begin(), many.end());
}

std::vector<profile_event> event_collector::close() {
  std::vector<profile_event> out;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    out.swap(events_);
  }
  // A range before those inside of it, which have ended earlier.
  std::stable_sort(out.begin(), out.end(), [](const profile_event& a, const profile_event& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  });
  return out;
}

event_collector* collecting::here() noexcept { return collected.into; }

collecting::collecting(std::shared_ptr<event_collector> into)
    : into_(std::move(into)), before_(collected.into) {
  if (!before_) {
    // Another profiler that is at work here would take the meter for a state of its own.
    if (into_->what.memory && !at::hasThreadLocalCallbacks() &&
        !c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))
      memory_.emplace(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<memory_meter>());
    callback_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&range_begins, &range_ends).needsInputs(into_->what.shapes));
  }
  collected.into = into_.get();
}

collecting::~collecting() {
  collected.into = before_;
  if (callback_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(callback_);
}

}  // namespace troupe::detail
