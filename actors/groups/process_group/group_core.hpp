#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/actors/groups/process_group/group_agreement.hpp"
#include "troupe/actors/groups/process_group/group_description.hpp"
#include "troupe/actors/groups/process_group/prepared_call.hpp"
#include "troupe/actors/groups/tracing/call_details.hpp"
#include "troupe/actors/groups/tracing/flight_recorder.hpp"
#include "troupe/actors/groups/tracing/trace.hpp"
#include "troupe/actors/groups/work/completed_work.hpp"
#include "troupe/actors/groups/work/work.hpp"
#include "troupe/actors/groups/work/work_queue.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe {

class node_core;

namespace groups {

/// One rank of a process group: keeps the order of its collectives, its backends, and its health. A
/// `process_group` is a handle of it. Thread-safe.
class group_core : public std::enable_shared_from_this<group_core> {
public:
  /// `channel` is open; `over` is called when the group needs it no more.
  static std::shared_ptr<group_core> make(group_description about,
                                          std::shared_ptr<network::group_channel> channel,
                                          std::weak_ptr<node_core> node,
                                          std::function<void()> over);
  ~group_core();

  const group_description& about() const noexcept { return about_; }
  int rank() const noexcept { return about_.rank; }
  int size() const noexcept { return static_cast<int>(about_.members.size()); }
  /// The last operations, the oldest first.
  std::vector<operation_record> records() const;
  trace_header trace_about() const;
  network::group_channel& channel() noexcept { return *channel_; }
  /// Throws not_initialized when it has ended.
  std::shared_ptr<node_core> node() const;
  bool destroyed() const;

  /// Agrees with the other members on what the group is, and makes the backends, unless that is
  /// done. Blocks until all members call it, or run their first collective. Throws
  /// collective_mismatch, collective_timeout, what a backend's factory throws.
  void establish();

  /// Carries a collective out, in its turn. Throws its error.
  void run(prepared_call& call);

  /// The same later, in its turn.
  work start(prepared_call&& call);

  /// A send passes collectives, and returns when the message is on its way. One whose dtype is
  /// undefined sends the bytes of an object, which nobody writes any more.
  void send(prepared_call& call);
  work start_send(prepared_call& call);
  /// A recv passes collectives. Receives of one sender and tag get its messages in their order.
  work start_receive(prepared_call&& call);
  /// Returns the sender's rank.
  int receive(prepared_call& call);
  /// The next object, of any size, for a recv without an output. Throws collective_mismatch if a
  /// tensor comes instead.
  network::letter receive_object(prepared_call& call);
  /// Sends and receives of one batch, whose order among them does not matter. All of them on
  /// streams of devices, as `stream_backend_for` says.
  std::vector<work> start_batch(std::vector<prepared_call>&& calls);

  /// The backend that carries out `what` on streams of its device; nullptr: none does. Establishes,
  /// unless the tensors are on the CPU.
  stream_backend* stream_backend_for(const operation& what);

  /// The connections of a backend on streams, for groups that are made of this one: see
  /// stream_backend. 0, and nothing, if it has none.
  int connections() const;
  std::shared_ptr<inherited_connections> split_connections(int count, int color, int key);
  std::shared_ptr<inherited_connections> shrink_connections(int count,
                                                            const std::vector<int>& excluded);
  void adopt(std::shared_ptr<inherited_connections> what);

  /// See empty_symmetric.
  c10::DataPtr allocate_symmetric(std::size_t bytes, c10::Device device);

  /// What a letter has, into the output of a recv. Throws collective_mismatch if it does not fit.
  void take_letter(prepared_call& call, const operation_place& where, const network::letter& mail);

  /// In the turn of a collective, but without a number among them. Throws collective_timeout; the
  /// group is as good as before then.
  void monitored_barrier(std::chrono::milliseconds limit, bool wait_all_ranks);

  /// Throws group_failed if the group has failed or was destroyed.
  void check_usable() const;

  /// The group fails: what is under way gets `why`, which is `here`'s or was noticed elsewhere;
  /// later operations group_failed. The others are told if it is from here.
  void fail(std::exception_ptr why) noexcept;

  /// The group takes no more operations; those under way fail. The backends are gone when it
  /// returns. Not inside of a completion hook, which it would wait for.
  void destroy() noexcept;

  /// Waits until all collectives that were started have ended.
  void wait_for_pending();

  void add_hook(std::function<void(const completed_work&)> hook);

  /// Of a group that another one was shrunk to: the last collective of that one that all members of
  /// this one have completed. 0: none.
  std::uint64_t completed_before() const noexcept { return completed_before_.load(); }
  void set_completed_before(std::uint64_t sequence) noexcept { completed_before_ = sequence; }

  /// The last collective that has ended well on this rank; 0: none.
  std::uint64_t last_completed() const noexcept { return last_completed_.load(); }
  std::uint64_t last_sequence() const noexcept { return queue_->last(); }

  std::chrono::milliseconds timeout() const noexcept { return timeout_.load(); }
  void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit; }

  operation_place place_of(const operation& what) const {
    return {about_.name, about_.rank, what.kind, what.sequence};
  }

  /// The name of the backend that carries `what` out. Establishes.
  std::string backend_of(operation_kind kind, c10::ScalarType dtype, c10::DeviceType device);

private:
  void monitor_ranks(std::uint64_t sequence, std::chrono::milliseconds limit, bool wait_all_ranks);
  void pass_monitor(std::uint64_t sequence, std::chrono::milliseconds limit);
  group_core(group_description about, std::shared_ptr<network::group_channel> channel,
             std::weak_ptr<node_core> node, std::function<void()> over);

  void watch_channel();
  void establish_in_turn();
  std::uint64_t schedule(const operation& what, operation_state state = operation_state::scheduled);
  std::exception_ptr in_detail(const operation& what, std::uint64_t record,
                               const std::exception_ptr& why) const;
  backend& backend_for(const operation& what) const;
  void check_device(c10::DeviceType device, operation_kind kind) const;
  void use_host(prepared_call& call) const;
  stream_backend* execute(prepared_call& call, std::uint64_t record, bool started);
  void run_started(const std::shared_ptr<prepared_call>& call,
                   const std::shared_ptr<work_state>& state, std::uint64_t record) noexcept;
  std::shared_ptr<backend> backend_on_streams() const;
  template <class Result>
  Result with_connections(function_ref<Result(stream_backend&, const time_limit&)> make);
  work start_on_device(prepared_call&& call);
  std::optional<work> start_alone(prepared_call& call);
  void letter_by_host(prepared_call& call) const;
  void finish_device(const prepared_call& call) const;
  void keep_on_device(const std::shared_ptr<prepared_call>& call) const noexcept;
  void watch_on_stream(stream_backend& by, const operation& what, std::uint64_t record,
                       std::shared_ptr<prepared_call> call, std::shared_ptr<work_state> state);
  void stream_operation_ended(std::uint64_t record, const operation_place& where,
                              std::exception_ptr why, work_state* state) noexcept;
  std::exception_ptr failed_at(const operation_place& where, const std::exception_ptr& why);
  std::shared_ptr<backend> lender() const;
  std::shared_ptr<backend> lender_of(const network::letter& mail, const operation_place& where);
  network::letter receive_letter(
      const operation& what,
      function_ref<void(const operation_place&, const network::letter&)> take);
  void operation_ended(std::uint64_t record, const operation_place& where,
                       const std::exception_ptr& why) noexcept;
  void await_failure() noexcept;
  void await_end() noexcept;
  void notify_hooks(const operation_place& what, const std::exception_ptr& why) noexcept;
  void write_trace() noexcept;
  void log_made() const;
  std::vector<std::shared_ptr<backend>> backends() const;
  std::exception_ptr failure() const;

  const group_description about_;
  const std::shared_ptr<network::group_channel> channel_;
  const std::weak_ptr<node_core> node_;
  const std::function<void()> over_;
  const std::shared_ptr<work_queue> queue_;
  std::uint64_t devices_ = 0;  // a bit for each c10::DeviceType that has a backend
  flight_recorder recorder_;
  call_details details_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> last_completed_{0};
  std::uint64_t monitored_ = 0;  // barriers so far; of whoever has the turn
  std::atomic<std::uint64_t> completed_before_{0};

  std::atomic<bool> failed_{false};
  std::atomic<group_backends*> ready_{nullptr};  // what `made_` holds
  std::atomic<bool> has_hooks_{false};
  mutable std::atomic<bool> told_host_{false};

  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  completion known_;  // there is a failure
  completion gone_;   // `destroy` is done
  std::unique_ptr<group_backends> made_;
  bool destroyed_ = false;
  std::vector<std::function<void(const completed_work&)>> hooks_;
};

}  // namespace groups

}  // namespace troupe
