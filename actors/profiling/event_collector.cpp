#include "troupe/actors/profiling/event_collector.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "troupe/messages/base/log.hpp"

namespace troupe::detail {

namespace {

// The state of the calling thread.
struct collected_here {
  event_collector* into = nullptr;
  std::int64_t host_bytes = 0, device_bytes = 0;  // since the thread began
  // Libtorch's names for what it calls, without shapes and with them.
  at::CallbackHandle callbacks[2] = {at::INVALID_CALLBACK_HANDLE, at::INVALID_CALLBACK_HANDLE};
};
constinit thread_local collected_here collected;

// A range that has begun.
struct begun_range final : at::ObserverContext {
  std::shared_ptr<event_collector> into;
  profile_event event;
  std::int64_t host_before = 0, device_before = 0;
};

// A thread may have both callbacks.
template <bool Shapes>
std::unique_ptr<at::ObserverContext> range_begins(const at::RecordFunction& range) {
  if (!collected.into || collected.into->what.shapes != Shapes || collected.into->abandoned())
    return nullptr;
  auto begun = std::make_unique<begun_range>();
  begun->into = collected.into->shared_from_this();
  auto& event = begun->event;
  event.name = range.name();
  event.node = begun->into->node;
  event.thread = at::RecordFunction::currentThreadId();
  event.number = range.seqNr();
  if (Shapes && range.needsInputs()) event.shapes = torch::profiler::impl::inputSizes(range);
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

// Takes the place of a profiler's state, which libtorch's allocators notify. For everything else it
// is a disabled profiler.
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

// Only if it is on top of the calling thread's debug info.
void take_memory_meter_away() noexcept {
  constexpr auto kind = c10::DebugInfoKind::PROFILER_STATE;
  if (!dynamic_cast<memory_meter*>(c10::ThreadLocalDebugInfo::get(kind))) return;
  try {
    c10::ThreadLocalDebugInfo::_pop(kind);
  } catch (const c10::Error&) {
    // Another state lies above it: the meter stays below, and counts for no profile.
  }
}

}  // namespace

std::int64_t profile_time() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void event_collector::add(profile_event&& one) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (events_.size() < most_)
    events_.push_back(std::move(one));
  else
    ++left_out_;
}

void event_collector::add(const std::vector<profile_event>& many) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const auto fit = std::min(many.size(), most_ - events_.size());
  events_.insert(events_.end(), many.begin(), many.begin() + static_cast<std::ptrdiff_t>(fit));
  left_out_ += many.size() - fit;
}

std::vector<profile_event> event_collector::close() {
  std::vector<profile_event> out;
  std::size_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    out.swap(events_);
    left_out = std::exchange(left_out_, 0);
  }
  if (left_out > 0)
    log().warn("a profile keeps its first {} events and drops {}; profile for a shorter time",
               most_, left_out);
  // An outer range comes before its inner ones, which have ended, and were added, earlier.
  std::stable_sort(out.begin(), out.end(), [](const profile_event& a, const profile_event& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  });
  return out;
}

event_collector* collecting::here() noexcept {
  if (collected.into && collected.into->abandoned()) leave();
  return collected.into;
}

void collecting::let_go() noexcept {
  auto* const into = std::exchange(collected.into, nullptr);
  std::shared_ptr<event_collector> last;
  if (into && into->abandoned_.exchange(true)) last = std::move(into->kept_);
}

void collecting::leave() noexcept {
  if (!collected.into) return;
  let_go();
  for (auto& callback : collected.callbacks)
    if (callback != at::INVALID_CALLBACK_HANDLE)
      at::removeCallback(std::exchange(callback, at::INVALID_CALLBACK_HANDLE));
  take_memory_meter_away();
}

event_collector* collecting::turn_to(event_collector* into) noexcept {
  return std::exchange(collected.into, into);
}

collecting::collecting(std::shared_ptr<event_collector> into)
    : into_(std::move(into)), thread_(&collected), before_(here()) {
  // A thread may end without having turned to anything else. Libtorch's state of it may be gone by
  // then.
  thread_local const struct thread_end {
    ~thread_end() { let_go(); }
  } at_end;
  (void)at_end;
  // Another profiler that is active on this thread would take the meter for its own state.
  if (!before_ && into_->what.memory && !at::hasThreadLocalCallbacks() &&
      !c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE,
                                     std::make_shared<memory_meter>());
  const bool shapes = into_->what.shapes;
  if (auto& callback = collected.callbacks[shapes]; callback == at::INVALID_CALLBACK_HANDLE) {
    auto what = shapes ? at::RecordFunctionCallback(&range_begins<true>, &range_ends)
                       : at::RecordFunctionCallback(&range_begins<false>, &range_ends);
    callback = at::addThreadLocalCallback(what.needsInputs(shapes));
    registered_ = true;
  }
  collected.into = into_.get();
}

collecting::~collecting() {
  if (thread_ == &collected && collected.into == into_.get()) {
    collected.into = before_;
    if (registered_)
      at::removeCallback(
          std::exchange(collected.callbacks[into_->what.shapes], at::INVALID_CALLBACK_HANDLE));
    if (!before_) take_memory_meter_away();
    return;
  }
  // Either the thread has left the collector already; or this is another thread, and the collecting
  // one may still look at the collector, until it finds it abandoned and leaves.
  if (thread_ == &collected) return;
  into_->kept_ = into_;
  if (into_->abandoned_.exchange(true)) into_->kept_ = nullptr;
}

}  // namespace troupe::detail
