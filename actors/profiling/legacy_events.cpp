#include "troupe/actors/profiling/legacy_events.hpp"

#include <torch/csrc/autograd/profiler_legacy.h>

#include <algorithm>
#include <atomic>

namespace troupe::detail {

namespace {

using torch::autograd::profiler::EventKind;
using torch::autograd::profiler::LegacyEvent;

LegacyEvent legacy_event(EventKind kind, const profile_event& of, std::uint64_t handle,
                         std::int64_t when, std::int64_t host_bytes = 0,
                         std::int64_t device_bytes = 0) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (kind == EventKind::PushRange) shapes = of.shapes;
  LegacyEvent out(kind, at::StringView(of.name), static_cast<std::uint16_t>(of.thread), handle,
                  std::move(shapes), of.node, /*is_remote=*/true, host_bytes, when,
                  /*cuda_recorded=*/false, device_bytes);
  out.setSequenceNr(of.number);
  return out;
}

// Does `outer` contain `inner`, which begins no earlier?
bool encloses(const profile_event& outer, const profile_event& inner) noexcept {
  return !outer.async && !inner.async && outer.node == inner.node && outer.thread == inner.thread &&
         inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns;
}

struct timed_event {
  std::int64_t when;
  LegacyEvent event;
};

}  // namespace

std::optional<profile_options> legacy_profiler_here() {
  if (torch::profiler::impl::profilerType() != torch::profiler::impl::ActiveProfilerType::LEGACY)
    return std::nullopt;
  const auto config = torch::profiler::impl::getProfilerConfig();
  return profile_options{config.report_input_shapes, config.profile_memory};
}

// The reader of the list adds an allocation to all ranges that are open at its time: so each range
// reports only what its inner ranges do not.
void add_to_legacy_profiler(const std::vector<profile_event>& events) {
  static std::atomic<std::uint64_t> last_handle{0};
  std::vector<timed_event> list;
  std::vector<std::pair<const profile_event*, std::uint64_t>> open;
  std::vector<std::pair<std::int64_t, std::int64_t>> own;  // of those, host and device
  const auto pop = [&] {
    const auto& [event, handle] = open.back();
    const auto end = event->start_ns + event->duration_ns;
    const auto [host, device] = own.back();
    if (host != 0 || device != 0)
      list.push_back(
          {end, legacy_event(EventKind::MemoryAlloc, *event, handle, end, host, device)});
    list.push_back({end, legacy_event(EventKind::PopRange, *event, handle, end)});
    open.pop_back();
    own.pop_back();
  };
  for (const auto& one : events) {
    while (!open.empty() && !encloses(*open.back().first, one)) pop();
    if (!own.empty()) {
      own.back().first -= one.host_bytes;
      own.back().second -= one.device_bytes;
    }
    const auto handle = ++last_handle;
    list.push_back({one.start_ns, legacy_event(EventKind::PushRange, one, handle, one.start_ns)});
    open.emplace_back(&one, handle);
    own.emplace_back(one.host_bytes, one.device_bytes);
  }
  while (!open.empty()) pop();
  std::stable_sort(list.begin(), list.end(),
                   [](const timed_event& a, const timed_event& b) { return a.when < b.when; });
  std::vector<LegacyEvent> out;
  out.reserve(list.size());
  for (auto& one : list) out.push_back(std::move(one.event));
  torch::autograd::profiler::addEventList(std::move(out));
}

}  // namespace troupe::detail
