#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "double_faults.hpp"
#include "double_region.hpp"
#include "troupe/actors/groups/nccl/nccl_interface.hpp"

namespace troupe::test::nccl_double {

/// A call that was put on a stream.
struct call {
  enum class what : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    send,
    recv
  };
  what function;
  const void* from = nullptr;  ///< of the device
  void* to = nullptr;
  std::size_t count = 0;
  groups::nccl::data_type type{};
  int how = 0;
  int root = 0;  ///< or the other rank
  double factor = 1;
  bool premultiplied = false;
  fault wrong{};
};

const char* name_of(call::what function) noexcept;

/// One rank's end of a communicator. Its calls run on streams of the simulated accelerator.
class communicator : public std::enable_shared_from_this<communicator> {
public:
  communicator(int rank, int size) : rank_(rank), size_(size) {}
  ~communicator();

  static std::shared_ptr<communicator> join(const groups::nccl::unique_id& id, int rank, int size);
  /// Begins it: this one is not ready before it is over. `deliver` is called then with what was
  /// made, nullptr of no color; also late, by the abort. `taking_part`: ranks of this one.
  using delivery = std::function<void(std::shared_ptr<communicator>)>;
  void begin_split(int color, int key, std::vector<int> taking_part, delivery deliver);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Goes on with what was begun. in_progress: it is not over.
  groups::nccl::result state();
  void abort() noexcept;
  /// Have the other ranks asked for its end too?
  bool finalize();
  /// The calls of a group are launched late, or, of one that hangs, never.
  groups::nccl::result launch_later(void* stream, std::vector<call> calls, const fault& how);
  void fail(groups::nccl::result why) noexcept { error_ = why; }

  /// One group of calls.
  void launch(void* stream, std::vector<call> calls);
  bool idle() const noexcept { return pending_.load() == 0; }

  int make_reduction(double factor);
  /// Of a number that make_reduction has returned.
  std::optional<double> factor_of(int number);

private:
  void run(std::uint64_t ticket, const std::vector<call>& calls);
  void collective(const call& what);
  void messages(const std::vector<call>& calls);
  bool meet();
  bool await(const std::function<bool()>& until) const;
  bool agree(const call& what);
  void reduce_to(int root, const call& what, const std::byte* from, std::byte* to);
  void spread_from(int root, const std::byte* from, std::byte* to, std::size_t bytes);
  groups::nccl::result join_region();
  groups::nccl::result go_on_with_split();

  std::atomic<int> rank_;
  std::atomic<int> size_;
  std::shared_ptr<region> region_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> hangs_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<groups::nccl::result> error_{groups::nccl::result::success};
  std::atomic<int> pending_{0};

  // While it is made by a split.
  std::shared_ptr<communicator> parent_;
  std::vector<int> taking_part_;
  int slot_ = 0;
  bool no_color_ = false;
  std::uint64_t split_count_ = 0;

  // Of the parent: what is being split off, and calls that wait to be launched.
  std::shared_ptr<communicator> splitting_;
  delivery deliver_;
  std::chrono::steady_clock::time_point launches_at_{};
  std::function<void()> launches_;

  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t issued_ = 0;
  std::uint64_t ran_ = 0;
  std::uint64_t stage_ = 0;  // of whoever has the turn
  std::map<int, double> factors_;
  int next_reduction_ = 5;
};

}  // namespace troupe::test::nccl_double
