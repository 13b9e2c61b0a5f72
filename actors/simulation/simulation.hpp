#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe {

class world;

struct simulation_options {
  std::uint64_t seed = 1;
  /// Its seed and `self_driven` are the simulation's business.
  transport::virtual_network_options network{};
  std::chrono::nanoseconds service{1'000};        ///< a step takes a node up to so long
  clock::duration limit = std::chrono::hours(1);  ///< of virtual time
  rpc_options node{};                             ///< of each node
  /// Hears of each message that a node takes up, in a line for people: when, who, whom, what.
  std::function<void(const std::string&)> trace{};
};

/// A laboratory for bad days: many nodes in one process, on a network that loses, doubles and
/// delays, with crashes, hangs and partitions, and a clock of its own. A run is a function of the
/// seed: the same program and the same seed do the same, message by message. Handlers may block, as
/// anywhere; nothing takes real time but computing.
///
/// The thread that makes it is the program's first thread; it and those made by `spawn` use the
/// nodes as programs do. They and the handlers run one at a time, so they need no locks, and wait
/// only for futures, actors and `sleep`: who blocks by other means blocks everything. One at a time
/// in a thread; all that it has made must be gone before another one is made there.
class simulation {
public:
  explicit simulation(simulation_options options = {});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  /// The founding nodes, by rank. Once.
  std::vector<node> start(const std::vector<std::string>& names);
  std::vector<node> start(std::size_t count);  ///< "worker0" and so on

  /// A node that joins the running job; with a rank, that of one that has gone. Throws what
  /// `init_rpc` throws.
  node join(const std::string& name, std::optional<std::uint32_t> rank = {});

  /// The node is no more, as if its process had been killed: nothing that it has not said is said.
  /// What waits in it gets not_initialized.
  void crash(std::uint32_t rank);

  /// The node does nothing for so long, as if its process had been stopped.
  void hang(std::uint32_t rank, std::chrono::nanoseconds time);

  /// Everything takes the node so many times as long.
  void slow(std::uint32_t rank, double times);

  /// Links, partitions, and what has happened to datagrams.
  transport::virtual_network& network() noexcept { return *network_; }

  clock::time_point now() const noexcept;
  void sleep(std::chrono::nanoseconds time);

  /// Looks again and again, at first each 50 us of the simulation's time, then each sixteenth of
  /// what has passed, up to 1 ms; false when `limit` has passed.
  bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit);

  /// Runs `body` as another thread of the program.
  future<void> spawn(std::function<void()> body);

  /// Below `limit`, from the seed.
  std::uint64_t random(std::uint64_t limit);

  std::uint64_t seed() const noexcept { return options_.seed; }

  /// Steps taken so far: two runs that differ in anything differ in this, most likely.
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
