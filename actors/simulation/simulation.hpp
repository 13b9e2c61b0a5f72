#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe {

class node_core;
class world;
struct membership_view;

struct simulation_options {
  std::uint64_t seed = 1;
  /// Its `seed` and `self_driven` are ignored: the simulation sets them.
  transport::virtual_network_options network{};
  std::chrono::nanoseconds service{1'000};  ///< a step takes a node up to this long
  /// In virtual time. Nothing happens after it: a wait of the first thread that would go on for
  /// longer throws deadlock_error.
  clock::duration limit = std::chrono::hours(1);
  rpc_options node{};  ///< of each node
  /// Is called with a line of text for each message that a node takes up: time, sender, receiver,
  /// kind.
  std::function<void(const std::string&)> trace{};
};

/// A simulated cluster for fault injection: many nodes in one process, on a network that loses,
/// duplicates and delays messages, with crashes, hangs and partitions, and a clock of its own. A
/// run is a function of the seed: the same program with the same seed does the same, message by
/// message. Handlers may block, as anywhere; only computing takes real time.
///
/// The thread that makes it is the program's first thread; it and those made by `spawn` use the
/// nodes as programs do. They and the handlers run one at a time, so they need no locks. They wait
/// only for futures, actors and `sleep`: a thread that blocks by other means blocks everything. One
/// simulation at a time in a thread; everything made by it must be gone before another one is made
/// there.
class simulation {
public:
  explicit simulation(simulation_options options = {});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// Makes the founding nodes, by rank. May be called once.
  std::vector<node> start(const std::vector<std::string>& names);
  std::vector<node> start(std::size_t count);  ///< "worker0" and so on

  /// Makes a node that joins the running job, at a new rank, or at `rank`, whose node has gone.
  /// Throws rpc_timeout if it is not admitted within the nodes' `init_timeout`, rendezvous_error if
  /// there is no node that could admit it or a member has its rank or name, and invalid_argument
  /// for a name that cannot be.
  node join(const std::string& name, std::optional<std::uint32_t> rank = {});

  /// Ends the node as if its process had been killed: it sends nothing more. Threads that wait in
  /// it get not_initialized. This function, `hang` and `slow` throw unknown_worker if there is no
  /// node of that rank.
  void crash(std::uint32_t rank);

  /// Stops the node for that time, as if its process had been stopped.
  void hang(std::uint32_t rank, std::chrono::nanoseconds time);

  /// Slows the node down: everything takes it `times` as long.
  void slow(std::uint32_t rank, double times);

  /// The network: links, partitions, and counters of datagrams.
  transport::virtual_network& network() noexcept { return *network_; }

  clock::time_point now() const noexcept;
  void sleep(std::chrono::nanoseconds time);

  /// Polls `condition`, at first every 50 us of simulated time, then at intervals of a sixteenth of
  /// the time that has passed, up to 1 ms. False if `limit` has passed.
  bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit);

  /// Runs `body` as another thread of the program.
  future<void> spawn(std::function<void()> body);

  /// A number below `limit`, which is 1 or more, from the seed.
  std::uint64_t random(std::uint64_t limit);

  std::uint64_t seed() const noexcept { return options_.seed; }

  /// Steps taken so far. Two runs that differ in anything most likely differ in this.
  std::uint64_t steps() const noexcept;

private:
  std::shared_ptr<node_core> core(std::uint32_t rank) const;
  std::shared_ptr<node_core> make(std::uint32_t rank, std::uint64_t incarnation,
                                  const membership_view& start);

  simulation_options options_;
  std::shared_ptr<transport::virtual_network> network_;
  std::shared_ptr<world> world_;
  std::uint64_t job_ = 0;
  std::map<std::uint32_t, std::weak_ptr<node_core>> nodes_;
};

}  // namespace troupe
