#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/backend/time_limit.hpp"

namespace troupe {
class node_core;
}

namespace c10 {
struct Event;
class Stream;
}  // namespace c10

namespace troupe::groups {

class stream_backend;

namespace network {
class group_channel;
}

/// Carries out the collectives of one group, for one of its ranks.
///
/// `run` has one caller at a time: the group keeps the order. `abort` may be called meanwhile, by
/// any thread.
class backend {
public:
  virtual ~backend() = default;

  /// The name it is registered by.
  virtual std::string_view name() const noexcept = 0;

  /// Can it carry this out? The answer is the same on all ranks and never changes. Any thread.
  virtual bool supports(operation_kind kind, c10::ScalarType dtype,
                        c10::DeviceType device) const noexcept = 0;

  /// Carries `what` out and returns when this rank is done: its outputs are there, and its inputs
  /// may be written again. Compares what the ranks asked for before it writes into any output.
  /// Throws collective_mismatch if they disagree, on all ranks; collective_timeout when `limit` has
  /// passed; what `abort` was called with. After an error the outputs are undefined, and the group
  /// calls it no more.
  virtual void run(operation& what, const time_limit& limit) = 0;

  /// This object, if it puts its operations on streams of devices; nullptr otherwise.
  virtual stream_backend* on_streams() noexcept { return nullptr; }

  /// Throws invalid_argument if it cannot carry out `what` on account of its arguments: on all
  /// ranks alike, and before anything is sent. One that throws has done nothing.
  virtual void check(const operation& /*what*/) const {}

  /// Does it have `lend` and `take`?
  virtual bool lends() const noexcept { return false; }
  /// For sends, which messages carry: lends `tensor` to rank `to`, so that the message need only
  /// have what this returns. 0: it cannot be lent. Later writes to the tensor are not seen there.
  /// Any thread.
  virtual std::uint64_t lend(const at::Tensor& /*tensor*/, int /*to*/) { return 0; }
  /// The message was not sent: nobody takes what `lend` has returned. Any thread.
  virtual void take_back(std::uint64_t /*lent*/) noexcept {}
  /// For the recv: copies what `from` has lent, all of it, into a contiguous tensor of as many
  /// bytes, and gives it back; null: only gives it back. Throws internal_error if there is no such
  /// memory. Any thread.
  virtual void take(std::uint64_t /*lent*/, int /*from*/, const at::Tensor* /*into*/) {}

  /// Every `run` from now on throws `why`, and one that is under way does so soon: within 100 ms,
  /// whether it spins or sleeps. The first call counts. Any thread.
  virtual void abort(std::exception_ptr why) noexcept = 0;
};

/// An operation that was put on a stream of a device, until it has been carried out there.
struct stream_operation {
  std::shared_ptr<c10::Event> end;    ///< recorded on the stream behind it
  std::shared_ptr<const void> holds;  ///< what it uses: goes when nothing on the device uses it
  operation_kind kind = operation_kind::barrier;
  std::uint64_t sequence = 0;
  int peer = -1;                      ///< of a send or recv: the other rank
  std::chrono::milliseconds limit{};  ///< from `began` on
  std::chrono::steady_clock::time_point began{};
  /// Is told once, with nullptr or the error, by any thread.
  std::function<void(const std::exception_ptr&)> ended;
};

/// What a group that is made of another one has of its connections. For the backend that made it.
class inherited_connections {
public:
  virtual ~inherited_connections() = default;
};

/// One whose `run` only puts an operation on the current stream of the tensors' device, behind what
/// is there, and returns. It compares what the ranks ask for only as far as the library that it
/// uses does; errors that come later are told by `watch`.
class stream_backend : public backend {
public:
  stream_backend* on_streams() noexcept final { return this; }

  /// As `run` of each, with nothing between them: their order does not matter.
  virtual void run_together(std::span<operation* const> all, const time_limit& limit) = 0;

  /// The stream on which operations run that the caller does not wait for. The group lets it wait
  /// for the caller's.
  virtual c10::Stream side_stream(c10::Device device) = 0;

  /// Looks after what was put on a stream until it has ended: by its time, by an error, or well.
  /// Operations of one device end in their order. Any thread.
  virtual void watch(stream_operation what) = 0;

  /// Waits until nothing is on streams any more: all of it ends, well or not, in its time.
  virtual void wait_until_idle() = 0;

  /// The rank leaves the group. Nothing more is asked for. What is on streams goes on, also after
  /// this object has gone.
  virtual void leave(std::exception_ptr why) noexcept = 0;

  /// Memory of a device that all ranks register with the group; in a turn. Throws invalid_argument
  /// if it has none to give, and as `run`.
  virtual c10::DataPtr allocate_symmetric(std::size_t bytes, c10::Device device,
                                          const time_limit& limit) = 0;

  /// Those that `split` and `shrink` can use now.
  virtual int connections() const = 0;

  /// For groups of the ranks with the same colour, ordered by key and rank; all ranks call it, in a
  /// turn, with the same `count`, which is no more than any rank's `connections`. nullptr for a
  /// negative colour. An abort of this backend reaches them. Throws as `run`.
  virtual std::shared_ptr<inherited_connections> split(int count, int color, int key,
                                                       const time_limit& limit) = 0;

  /// For a group of all ranks but `excluded`, which do not call it. Nothing is under way.
  virtual std::shared_ptr<inherited_connections> shrink(int count, const std::vector<int>& excluded,
                                                        const time_limit& limit) = 0;

  /// Takes what the parent's has returned, before anything is asked for.
  virtual void adopt(std::shared_ptr<inherited_connections> what) = 0;
};

/// One rank of a group: a node, or an actor on one. Several actors of a group may be on one node.
struct group_member {
  std::uint32_t node = 0;   ///< its rank in the job
  std::string name{};       ///< its worker's
  std::uint64_t actor = 0;  ///< the actor's id on that node; 0: the node itself

  friend bool operator==(const group_member& a, const group_member& b) noexcept {
    return a.node == b.node && a.actor == b.actor;
  }
};

/// Passes bytes between the ranks of a group while it is made.
class member_exchange {
public:
  /// Returns what each rank has given, by rank; all ranks call it, in the same order. Blocks.
  /// Throws collective_timeout, which names the ranks missing, and peer_lost.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;

  /// Why the group cannot be made any more; null while it can. Who waits for another rank by other
  /// means than `all_gather` looks at it now and then. Any thread.
  virtual std::exception_ptr failure() const { return nullptr; }

protected:
  ~member_exchange() = default;
};

/// What a backend is made for.
struct backend_request {
  std::string group;  ///< its name: the same on all ranks, and no other group of the job has it
  int rank = 0;       ///< of this member in the group; another one may be in the same process
  /// What errors call the first one of these ranks, and the others after it: they may be some of a
  /// group's.
  int first_rank = 0;
  std::vector<group_member> members{};           ///< by rank
  std::chrono::milliseconds timeout{};           ///< of the group
  std::map<std::string, std::string> options{};  ///< group_options::backend_options
  /// group_options::device: "cuda:1", or empty. Not the same on all ranks.
  std::string device{};
  member_exchange* exchange = nullptr;  ///< until the factory returns
  /// The ranks' threads do more than this backend asks them to: who waits for others gives its core
  /// to whoever wants it.
  bool cores_are_busy = false;
  // For Troupe's own backends, which they outlive.
  node_core* node = nullptr;
  std::shared_ptr<network::group_channel> channel{};

  int size() const noexcept { return static_cast<int>(members.size()); }
};

}  // namespace troupe::groups
