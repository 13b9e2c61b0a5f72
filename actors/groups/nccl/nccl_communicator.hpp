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

  /// Ends what is left of it, in order: others may still get what this rank has sent, and NCCL
  /// waits for them, but for seconds only. Those that were made of it stay.
  ~nccl_communicator();
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;

  /// All ranks of this one call it. nullptr for `color` no_color. Later aborts reach what is made.
  std::shared_ptr<nccl_communicator> split(int color, int key, const nccl_options& options,
                                           const std::string& name, const patience& until);

  /// All ranks but those excluded call it, when nothing is under way.
  std::shared_ptr<nccl_communicator> shrink(std::vector<int> excluded, const nccl_options& options,
                                            const std::string& name, const patience& until);

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
  /// `split` and `shrink`. Whoever waits in a call gets its `problem`. May take long; returns when
  /// it is done, also where another thread has begun it.
  void abort() noexcept;
  bool aborted() const noexcept { return aborted_.load(); }

  const nccl_functions& functions() const noexcept { return *functions_; }
  const std::string& name() const noexcept { return name_; }

private:
  // Where NCCL puts a communicator that it makes, perhaps late, on a thread of its own.
  struct slot {
    communicator_handle handle = nullptr;
  };

  nccl_communicator(std::shared_ptr<const nccl_functions> functions, std::string name)
      : functions_(std::move(functions)), name_(std::move(name)) {}

  using maker = std::function<result(communicator_handle* made, configuration* config)>;
  std::shared_ptr<nccl_communicator> make_child(const nccl_options& options,
                                                const std::string& name, const char* function,
                                                const maker& make, const patience& until);
  void check_not_aborted(const patience& until) const;
  void await(const char* function, const patience& until);
  void adopt(const std::shared_ptr<nccl_communicator>& child);
  void abort_alone() noexcept;
  void end() noexcept;

  const std::shared_ptr<const nccl_functions> functions_;
  const std::string name_;
  std::mutex mutex_;  // of calls of NCCL
  std::atomic<communicator_handle> handle_{nullptr};
  std::atomic<bool> aborted_{false};
  std::vector<std::shared_ptr<slot>> slots_;  // of children that nobody has waited for to the end
  std::mutex abort_mutex_;
  std::mutex children_mutex_;
  std::vector<std::weak_ptr<nccl_communicator>> children_;
};

}  // namespace troupe::groups::nccl
