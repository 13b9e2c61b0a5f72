#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/groups/nccl/nccl_functions.hpp"
#include "troupe/actors/groups/nccl/nccl_options.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe::groups::nccl {

/// What waits for NCCL may be told to give up: `problem` is looked at every now and then, and what
/// it returns is thrown. Called by the thread that waits.
struct patience {
  clock::time_point deadline;
  std::function<std::exception_ptr()> problem;  ///< nullptr: go on
  std::function<std::exception_ptr()> timeout;  ///< what is thrown after the deadline
};

/// One rank's end of an NCCL communicator, for one device. None of its calls blocks inside NCCL, so
/// none needs to be freed by force. Thread-safe; calls follow one another.
class nccl_communicator {
public:
  /// All ranks call it, each with its device current. Throws transport_error, and what `until`
  /// says.
  static std::shared_ptr<nccl_communicator> make(std::shared_ptr<const nccl_functions> functions,
                                                 const nccl_options& options,
                                                 const std::string& name, int size,
                                                 const unique_id& id, int rank,
                                                 const patience& until);

  /// Waits for those that were made of it; ends what is left of it.
  ~nccl_communicator();
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;

  /// All ranks of this one call it. nullptr for `color` no_color. Later aborts reach what is made.
  std::shared_ptr<nccl_communicator> split(int color, int key, const nccl_options& options,
                                           const std::string& name, const patience& until);

  /// All ranks but those excluded call it. `aborting`: operations under way end first.
  std::shared_ptr<nccl_communicator> shrink(std::vector<int> excluded, bool aborting,
                                            const nccl_options& options, const std::string& name,
                                            const patience& until);

  /// Runs `calls` as one group of NCCL's (ncclGroupStart, ncclGroupEnd) and waits until it is
  /// launched. Throws transport_error, and what `until` says.
  void launch(const std::function<void(communicator_handle)>& calls, const patience& until);

  /// Registers memory of the device as a symmetric window: all ranks do. Throws as `launch`.
  window_handle register_window(void* memory, std::size_t size, const patience& until);
  /// Only while it is not aborted: an abort has forgotten all windows.
  void deregister_window(window_handle window) noexcept;

  /// An error that NCCL has noticed meanwhile; nullptr: none. Never blocks.
  std::exception_ptr async_error();

  /// Frees whoever is stuck: kernels end, with any result. So do those that were made of it by
  /// `split` and `shrink`. Whoever waits in a call gets its `problem`. The first call counts. May
  /// take long.
  void abort() noexcept;
  bool aborted() const noexcept { return aborted_.load(); }

  const nccl_functions& functions() const noexcept { return *functions_; }
  const std::string& name() const noexcept { return name_; }

private:
  nccl_communicator(std::shared_ptr<const nccl_functions> functions, std::string name)
      : functions_(std::move(functions)), name_(std::move(name)) {}

  using maker = std::function<result(communicator_handle* made, configuration* config)>;
  static std::shared_ptr<nccl_communicator> begin(std::shared_ptr<const nccl_functions> functions,
                                                  const nccl_options& options,
                                                  const std::string& name, const char* function,
                                                  const maker& make, const patience& until);
  void await(const char* function, const patience& until);
  void adopt(const std::shared_ptr<nccl_communicator>& child);
  void end() noexcept;

  const std::shared_ptr<const nccl_functions> functions_;
  const std::string name_;
  std::mutex mutex_;  // of calls of NCCL
  std::atomic<communicator_handle> handle_{nullptr};
  std::atomic<bool> aborted_{false};
  std::mutex children_mutex_;
  std::vector<std::weak_ptr<nccl_communicator>> children_;
};

}  // namespace troupe::groups::nccl
