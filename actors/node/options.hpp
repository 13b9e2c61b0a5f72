#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/cluster/device_map.hpp"
#include "troupe/actors/contexts/lost_gradient.hpp"
#include "troupe/actors/membership/job_rules.hpp"
#include "troupe/actors/messaging/window.hpp"
#include "troupe/transport/transport_options.hpp"

namespace troupe {

/// What a graceful shutdown does about rrefs of other nodes' values that the program still has
/// then.
enum class leaked_rref : std::uint8_t {
  ignore,  ///< one line of the log
  fail,    ///< the node ends, and the shutdown throws leaked_rref_error, which names them
};

/// How to become a node of a job. Everything has a default; what is empty comes from the
/// environment.
struct rpc_options {
  std::string name{};                   ///< this worker's, unique in the job; empty: "worker<rank>"
  std::vector<std::string> aliases{};   ///< further names by which it can be called
  std::optional<std::uint32_t> rank{};  ///< empty: RANK and what MPI or Slurm set
  std::optional<std::uint32_t> world_size{};  ///< empty: WORLD_SIZE and what MPI or Slurm set
  /// Or tcp://host:port, file:///path, or of a scheme that has a handler (<troupe/store.hpp>).
  std::string init_method = "env://";
  std::chrono::milliseconds init_timeout{60'000};  ///< to meet, or to be admitted
  std::chrono::milliseconds rpc_timeout{60'000};   ///< of calls that name none; 0: no limit
  backend transport = backend::automatic;          ///< the same on all nodes
  /// In place of `transport`, the same on all nodes: a transport that the program has registered
  /// (<troupe/transport.hpp>).
  std::string transport_name{};
  transport::transport_options transport_options{};  ///< for that one's factory
  /// Only this job, and users trusted with everything it can do, can reach the network and its
  /// hosts' ports. UCX's own protocol lets any process that connects to a node write anywhere in
  /// it; without this, or TROUPE_TRUSTED_NETWORK=1, it is not used between hosts: no RDMA, and no
  /// port of UCX is open. TCP needs no trust.
  bool trusted_network = false;
  /// Network interfaces to use between hosts: "eth0,eth1". The n-th of one node speaks to the n-th
  /// of another, so all nodes name the same number; streams of large tensors use one after the
  /// other. Empty: TROUPE_INTERFACES, or all but the loopback interface, which nodes of one host
  /// use.
  std::string net_devices{};
  /// The TCP port that this node listens on, or a range of which it takes one for each of its
  /// addresses: "40000-40100". Empty: TROUPE_PORTS, or any.
  std::string ports{};
  /// What protects the bytes between hosts, the same on all nodes. Empty: TROUPE_ENCRYPTION ("off",
  /// "authenticate", "encrypt"), or `authenticate`.
  std::optional<stream_protection> encryption{};
  /// Large tensors that a program moves into a call or a message, and fresh results, are handed
  /// over to nodes of the same host instead of copied (docs/lent_tensors.md): the same on all
  /// nodes. CPU tensors of 16 KiB and more lie in memory that those nodes can map then.
  /// TROUPE_HAND_OVER_TENSORS=0 or 1 decides instead.
  bool hand_over_tensors = true;
  /// Others are lent, too: large tensors for nodes of the same host are lent where they lie instead
  /// of copied (docs/lent_tensors.md): the same on all nodes; TROUPE_LEND_TENSORS=1 does the same.
  bool lend_tensors = false;
  /// Tensors of fewer bytes are sent to such nodes, not lent: 16 KiB or more. 0: TROUPE_LEND_FROM,
  /// or 16 KiB.
  std::size_t lend_from = 0;
  /// Tensors that cannot be lent where they lie are copied once, and the copy lent, from so many
  /// bytes on; smaller ones are sent. 0: TROUPE_LEND_COPIES_FROM, or 64 KiB.
  std::size_t lend_copies_from = 0;
  /// Instead of sending or copying a tensor of `lend_from` bytes and more for a node of the same
  /// host, calls and answers fail with transport_error, which says why it cannot be lent where it
  /// lies. Soon after the start, before the other node has mapped this one's memory, tensors are
  /// still sent. Only with `lend_tensors`. TROUPE_LEND_STRICTLY=1 does the same.
  bool lend_strictly = false;
  /// Most bytes of the memory from which tensors can be lent, 64 MiB or more; what finds no room is
  /// copied. The first node of a process that lends decides. 0: three quarters of the machine's
  /// memory, or of the control group's limit if that is less.
  std::size_t tensor_memory_limit = 0;
  std::string job{};     ///< empty: the launcher's
  flow_window window{};  ///< of each other node towards this one; the same on all nodes
  when_full overload = when_full::wait;  ///< what a call does when the receiver's window is full
  /// Between hosts: how often a silent connection is checked. It counts as lost after two and a
  /// half times as long; on one host a process's end is noticed at once.
  std::chrono::milliseconds keepalive{1'000};
  /// How long a node may be silent, though its process and connection live, before it counts as
  /// hung and is fenced, 100 ms or more; 0: no limit. The same on all nodes.
  std::chrono::milliseconds hang_limit{60'000};
  /// Handlers that may run, or wait for something, at one time; further ones wait for their turn.
  unsigned max_threads = 1024;
  /// A thread made because all others were blocked ends after it has been idle for this long.
  std::chrono::milliseconds thread_idle_limit{10'000};
  leader_loss on_leader_loss = leader_loss::end;  ///< the same on all nodes
  lost_gradient on_lost_gradient = lost_gradient::warn;
  leaked_rref on_leaked_rref = leaked_rref::ignore;
  /// Others may join the job while it runs; the same on all founders. Rank 0 admits them, for as
  /// long as it leads the job. Founders that are all on one host listen on the network then, too,
  /// unless they meet at a loopback address.
  bool admits_joiners = false;
  /// Joins a job that runs already, and admits joiners. Finds it as its founders do. `rank` is that
  /// of a member that has gone, to come back in its place; empty: a new one, whatever the
  /// environment says. `world_size` is ignored.
  bool joins_running = false;
  /// On which device of a callee tensors on a device of this node arrive, by any of the callee's
  /// names. Without a map a tensor on a GPU cannot be sent; host memory arrives in host memory.
  std::map<std::string, device_map> device_maps{};
  /// GPUs of this node that calls may use; empty: all.
  std::vector<std::string> devices{};
  /// Operators that other nodes may call here by name, beside libtorch's own computations: those
  /// that touch files or print ("aten::from_file"), one overload ("mylib::step.out"), or all of a
  /// library ("mylib::*").
  std::vector<std::string> operators{};
};

}  // namespace troupe
