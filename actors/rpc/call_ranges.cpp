#include "troupe/actors/rpc/call_ranges.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>

#include "troupe/actors/profiling/call_profile.hpp"
#include "troupe/actors/profiling/legacy_events.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::detail {

namespace {

// What to add to times of the callee's clock. By that clock the call lasted from `first` to `last`,
// and that must lie between `began` and `ended` of this node's clock: if it does, nothing is added;
// else both ways count as equally long (Cristian, "Probabilistic clock synchronization", 1989).
std::int64_t shift_of(std::int64_t began, std::int64_t ended, std::int64_t first,
                      std::int64_t last) noexcept {
  const auto least = began - first, most = ended - last;
  return least <= 0 && most >= 0 ? 0 : least + (most - least) / 2;
}

// Moves a callee's events, of which the first is the whole, into the time of the call. They may be
// anything: afterwards all of them lie in there.
void put_into(std::vector<profile_event>& events, std::int64_t began, std::int64_t ended) noexcept {
  constexpr auto latest = std::int64_t{1} << 62, most_bytes = std::int64_t{1} << 42;
  const auto& whole = events.front();
  const auto first = std::clamp<std::int64_t>(whole.start_ns, 0, latest);
  const auto last =
      first + std::clamp<std::int64_t>(whole.duration_ns, 0, std::max(began, ended) - began);
  const auto shift = shift_of(began, std::max(began, ended), first, last);
  for (auto& one : events) {
    const auto start = std::clamp(one.start_ns, first, last);
    one.duration_ns = std::clamp<std::int64_t>(one.duration_ns, 0, last - start);
    one.start_ns = start + shift;
    one.host_bytes = std::clamp(one.host_bytes, -most_bytes, most_bytes);
    one.device_bytes = std::clamp(one.device_bytes, -most_bytes, most_bytes);
  }
}

}  // namespace

/// A call that some profiler of the calling thread sees. Other threads may find that its limit
/// passes while its answer comes, or that its peer is lost while it begins. Thread-safe.
class profiled_call {
public:
  explicit profiled_call(at::StepCallbacks&& callbacks) {
    range_.emplace(std::move(callbacks));
    if (auto* const here = collecting::here()) {
      if (!here->asks_callees) return;
      events_ = here->shared_from_this();
      wanted_ = here->what;
    } else if ((wanted_ = legacy_profiler_here())) {
      legacy_ = c10::ThreadLocalDebugInfo::current();
    }
  }

  const std::optional<profile_options>& wanted() const noexcept { return wanted_; }

  void begin(std::string&& name, std::int64_t number) {
    const std::lock_guard lock(mutex_);
    name_ = std::move(name);
    range_->before(std::string_view(name_), number);
    range_->_setAsync();
    began_ = profile_time();
    begun_ = true;
    if (ended_) let_go();
  }

  // If the call ends before its range has begun, `begin` is still to come.
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(ended_, true) && begun_) let_go();
  }

  /// Nothing that comes after the end is taken.
  void add(std::vector<profile_event>&& events) {
    const std::lock_guard lock(mutex_);
    if (events.empty() || !wanted_ || !begun_ || ended_) return;
    put_into(events, began_, profile_time());
    for (auto& one : events) {
      one.name = name_ + "#remote_op: " + one.name;
      one.remote = true;
    }
    if (events_) return events_->add(events);
    const c10::DebugInfoGuard as_caller(legacy_);
    add_to_legacy_profiler(events);
  }

private:
  // The legacy profiler looks for itself on the thread that ends a range. Others may have gone by
  // then, and must not be found. Profiles are let go of, though the answer may come much later.
  void let_go() noexcept {
    {
      std::optional<c10::DebugInfoGuard> as_caller;
      if (legacy_) as_caller.emplace(legacy_);
      range_.reset();
    }
    events_ = nullptr;
    legacy_ = nullptr;
  }

  std::mutex mutex_;
  bool begun_ = false, ended_ = false;
  std::optional<at::RecordFunction> range_;
  std::optional<profile_options> wanted_;
  std::shared_ptr<event_collector> events_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> legacy_;  // of the thread that calls
  std::string name_;
  std::int64_t began_ = 0;
};

namespace {

// Ends the range when its call does; a late answer comes when it has ended.
class ranged_sink final : public reply_sink {
public:
  ranged_sink(std::shared_ptr<reply_sink> to, std::shared_ptr<profiled_call> call)
      : to_(std::move(to)), call_(std::move(call)) {}

  void on_value(opened_envelope& answer) noexcept override {
    call_->end();
    to_->on_value(answer);
  }
  void on_fault(fault&& why) noexcept override {
    call_->end();
    to_->on_fault(std::move(why));
  }
  void on_expiry(fault&& why) noexcept override {
    call_->end();
    to_->on_expiry(std::move(why));
  }
  void on_profile(std::vector<profile_event>&& events) noexcept override {
    try {
      call_->add(std::move(events));
    } catch (const std::exception& e) {
      log().warn("a profile loses what a callee has recorded: {}", e.what());
    }
  }

private:
  const std::shared_ptr<reply_sink> to_;
  const std::shared_ptr<profiled_call> call_;
};

}  // namespace

caller_range::caller_range(std::shared_ptr<reply_sink>& sink, bool sync) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  call_ = std::make_shared<profiled_call>(std::move(*callbacks));
  const bool creates = sink->keeps_result();
  kind_ = creates ? "rpc_remote" : sync ? "rpc_sync" : "rpc_async";
  sink = std::make_shared<ranged_sink>(std::move(sink), call_);
}

void caller_range::ask(envelope_header& header) const noexcept {
  if (!call_ || !call_->wanted()) return;
  header.profiled = true;
  header.profiled_shapes = call_->wanted()->shapes;
  header.profiled_memory = call_->wanted()->memory;
}

void caller_range::begin(std::string_view function, std::string_view caller,
                         std::string_view callee, std::int64_t number) {
  if (call_) call_->begin(range_name(kind_, function, caller, callee), number);
}

callee_range::callee_range(std::string_view function, std::string_view caller,
                           std::string_view callee, std::int64_t number) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  range_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  range_->before(range_name("rpc", function, caller, callee), number);
}

callee_range::~callee_range() = default;

}  // namespace troupe::detail
