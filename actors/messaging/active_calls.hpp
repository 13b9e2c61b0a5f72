#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe {

namespace detail {

class future_core;

}  // namespace detail

/// What a node knows of the calls that it serves, for their callers to cancel. A call that answers
/// at once leaves no trace here. Thread-safe.
///
/// Remembers a caller's last 4,096 cancelled calls, slightly fewer when many callers cancel, in a
/// table of fixed size. So a cancellation that overtakes its call is found, and a late or stray one
/// has no effect.
class active_calls {
public:
  active_calls() = default;
  ~active_calls();
  active_calls(const active_calls&) = delete;
  active_calls& operator=(const active_calls&) = delete;

  /// Its caller has given it up. Returns where its answer is to come from; nullptr when that is not
  /// known, or has been returned before.
  std::shared_ptr<detail::future_core> cancel(const active_call& call);

  /// Has one that begins now been cancelled? Hot path: one load while nothing ever was.
  bool remembers(const active_call& call) const noexcept {
    const auto* recent = recent_.load(std::memory_order_acquire);
    return recent && (*recent)[place_of(call)].load(std::memory_order_acquire) == mark_of(call);
  }

  /// The same for one that runs.
  bool cancelled(const active_call& call) const noexcept;

  /// Its answer comes from `answer`, later. False when it has been cancelled already.
  bool add(const active_call& call, const std::shared_ptr<detail::future_core>& answer);
  void remove(const active_call& call) noexcept;

  /// Those whose answer comes later.
  std::size_t size() const;

private:
  using marks = std::array<std::atomic<std::uint64_t>, 4096>;

  struct entry {
    std::weak_ptr<detail::future_core> answer;
    bool cancelled = false;
  };
  struct hash {
    std::size_t operator()(const active_call& call) const noexcept {
      return static_cast<std::size_t>(mark_of(call));
    }
  };

  static std::uint64_t mark_of(const active_call& call) noexcept;
  static std::size_t place_of(const active_call& call) noexcept;

  std::atomic<marks*> recent_{nullptr};  // made when something is cancelled for the first time
  mutable std::mutex mutex_;
  std::unordered_map<active_call, entry, hash> waiting_;
};

}  // namespace troupe
