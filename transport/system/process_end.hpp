#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "troupe/messages/base/forked.hpp"
#include "troupe/transport/system/process.hpp"

namespace troupe::transport {

/// While it exists, the end of a process is waited for. Movable. Not thread-safe itself.
class process_end_watch {
public:
  /// Watches nothing.
  process_end_watch() = default;
  process_end_watch(process_end_watch&& other) noexcept;
  process_end_watch& operator=(process_end_watch&& other) noexcept;
  /// Cancels.
  ~process_end_watch();

  /// The function will not be called any more. Waits for it if it runs just now on another thread,
  /// so the caller must hold nothing that it needs. In a forked process: nothing.
  void cancel() noexcept;

  /// Empty, or why the end cannot be noticed; the function is never called then.
  const std::string& why() const noexcept { return why_; }

private:
  friend process_end_watch on_process_end(const process_identity&, std::function<void()>);

  std::uint64_t number_ = 0;  // 0: none
  std::string why_;
  forked::home home_;
};

/// Calls `then` once when `who` has certainly ended, so that nothing of it runs or reads any more;
/// soon, if that was before. A process that is stopped or silent has not ended. The one thread of
/// this process that makes all such calls is asleep otherwise and keeps no program from ending;
/// `then` shall be short, and what it throws is logged. Each watch takes a descriptor. Thread-safe;
/// may be called from within `then`. Throws transport_error when this process may open no more
/// descriptors, or no thread.
[[nodiscard]] process_end_watch on_process_end(const process_identity& who,
                                               std::function<void()> then);

}  // namespace troupe::transport
