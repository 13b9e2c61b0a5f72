#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "troupe/actors/sync/gate.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe {

/// Is a node open: has it joined its job, and not ended since? Thread-safe.
class node_lifecycle {
public:
  /// Throws not_initialized before `open` and after `close`, and in a forked process; what ended
  /// the job, once it has ended.
  void check_open() const;
  bool is_open() const noexcept {
    return open_.load(std::memory_order_acquire) && !forked::from_nodes();
  }

  // Pair with the loads above and in `check_open`: a thread that finds it open sees the parts that
  // were made for it, and a thread that finds it closed sees why.
  void open() noexcept { open_.store(true, std::memory_order_release); }
  void close() noexcept { open_.store(false, std::memory_order_release); }

  /// The job goes on without this node, or not at all.
  void job_ended(const fault& why);

  /// Why, if it has.
  std::optional<fault> end_of_job() const;

  /// Threads of the program that use the network or the actor system pass here first. Closed as the
  /// node ends.
  gate& uses() const noexcept { return uses_; }

private:
  std::atomic<bool> open_{false};
  mutable gate uses_;
  mutable std::mutex mutex_;
  std::optional<fault> ended_;
};

}  // namespace troupe
