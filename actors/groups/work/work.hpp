#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"

namespace at {
class Tensor;
}
namespace c10 {
struct Event;
}

namespace troupe {

namespace groups {

class work_future;
class work_queue;

/// What a work handle refers to.
class work_state {
public:
  /// Of a collective that waits in `queue`; nullptr: of a message.
  work_state(const std::shared_ptr<engine>& driver, operation_place where,
             const std::shared_ptr<work_queue>& queue = nullptr);
  ~work_state();
  work_state(const work_state&) = delete;
  work_state& operator=(const work_state&) = delete;

  const operation_place& where() const noexcept { return where_; }
  void set_sequence(std::uint64_t number) noexcept;

  /// It is carried out on a stream of a device. Before others have it.
  void set_on_stream() noexcept { on_stream_ = true; }
  bool on_stream() const noexcept { return on_stream_; }
  /// It is on a stream now, up to `end`.
  void put_on_stream(std::shared_ptr<c10::Event> end);
  /// Waits until it is on a stream, or has failed before.
  void await_put() const;
  /// What the calling thread's stream gets from now on waits for it.
  void block_current_stream() const;

  void begin() noexcept { started_ = clock::now(); }
  void complete(std::vector<at::Tensor> results);
  void fail(std::exception_ptr why);
  void set_source(int rank) noexcept { source_ = rank; }

  const future<std::vector<at::Tensor>>& result() const noexcept { return result_; }
  /// The same for programs, which may cancel it.
  future<std::vector<at::Tensor>> relayed() const;
  /// The calling thread is about to wait for it, and may run it.
  void begin_wait(clock::time_point deadline) const;
  int source() const noexcept { return source_; }
  std::chrono::nanoseconds duration() const noexcept;

private:
  operation_place where_;
  const std::shared_ptr<engine> driver_;
  const std::shared_ptr<work_future> own_, relay_;
  const future<std::vector<at::Tensor>> result_;  // of `own_`
  std::atomic<int> source_{-1};
  bool on_stream_ = false;
  std::shared_ptr<c10::Event> end_;  // written before `put_` is finished
  mutable completion put_;
  // Written before the result is there, and read afterwards.
  clock::time_point started_;
  clock::time_point ended_;
};

}  // namespace groups

/// An operation of a process group that was started. Copies are the same operation, which goes on
/// without them. The tensors that were given to it must not be read (outputs) or written (all)
/// until it has ended. Thread-safe.
///
/// One that a backend carries out on a stream of a device (NCCL) has ended when it has there; see
/// `wait`.
class work {
public:
  work() = default;
  explicit work(std::shared_ptr<groups::work_state> state) : state_(std::move(state)) {}

  /// Is it an operation at all? Not on a rank that is not in the group.
  bool valid() const noexcept { return state_ != nullptr; }

  /// Has it ended, well or not?
  bool is_completed() const;
  /// Has it ended well? Throws invalid_argument before it has ended.
  bool is_success() const;
  /// Its error; nullptr: it has none, or has not ended.
  std::exception_ptr exception() const;

  /// On a stream, without a limit: returns at once, and what the calling thread puts on the current
  /// stream of that device from now on waits for it. Otherwise:
  /// blocks until it has ended, or throws collective_timeout after `limit` (0: without one), which
  /// the operation survives. Without a limit a collective that has not begun runs here, on the
  /// calling thread, after those that were started before. Throws its error: collective_timeout,
  /// collective_mismatch, peer_lost, group_failed, not_initialized, which name rank, operation,
  /// sequence number and cause.
  void wait(std::chrono::milliseconds limit = {}) const;
  void synchronize() const { wait(); }

  /// Of a recv that has ended: the sender's rank in the group. Throws invalid_argument otherwise.
  int source_rank() const;

  /// The tensors that it has written. Waits, on a stream too until they are there.
  std::vector<at::Tensor> result() const;

  /// From when it began to run until it ended. 0: it has not ended, or never ran.
  std::chrono::nanoseconds duration() const;

  /// Among the collectives of its group, from 1 on: all ranks count alike. 0: a send or recv.
  std::uint64_t sequence_number() const;

  /// "all_reduce", for texts.
  std::string name() const;

  /// The tensors that it writes, when it has ended; its error if it fails. To be continued by
  /// `then` and awaited in coroutines. Cancelling it ends neither the operation nor this work.
  future<std::vector<at::Tensor>> get_future() const;

private:
  groups::work_state& state() const;

  std::shared_ptr<groups::work_state> state_;
};

}  // namespace troupe
