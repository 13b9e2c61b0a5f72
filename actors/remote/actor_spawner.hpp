#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/actors/scheduler/node_lifecycle.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe {

class actor_system_host;
class engine;
class remote_actors;
struct node_identity;

/// Makes a node's actors, and ends them with it. Owns the actor system. Thread-safe.
class actor_spawner {
public:
  actor_spawner(node_lifecycle& life, engine& driver);
  ~actor_spawner();
  actor_spawner(const actor_spawner&) = delete;
  actor_spawner& operator=(const actor_spawner&) = delete;

  /// Makes the actor system. Before the node is open.
  void open(const std::shared_ptr<remote_actors>& actors, const node_identity& self);

  /// Makes an actor: `make` gets the actor system, which stays until it returns. The actor ends at
  /// the shutdown, if it has not ended by then. Throws not_initialized.
  template <class Make>
  auto spawn(Make&& make) {
    gate::pass pass(life_.uses());
    life_.check_open();  // it is when the gate is
    auto made = make(system());
    adopt(caf::actor_cast<caf::strong_actor_ptr>(made));
    return made;
  }

  /// Stays until the shutdown; `spawn` is for threads that may race with that.
  caf::actor_system& system() noexcept;

  /// Sends CAF's timed messages that are due; returns when the next is. On the timer thread, which
  /// lives before the actor system and after it.
  clock::time_point run_timers();

  /// Ends all actors that were made here, and gives others of the system `limit` to end. After the
  /// node's gates have closed.
  void end_actors(std::chrono::nanoseconds limit, std::string_view node);

  /// Ends the actor system, which stops the engine.
  void close();

private:
  void adopt(const caf::strong_actor_ptr& actor);

  node_lifecycle& life_;
  engine& engine_;
  std::unique_ptr<actor_system_host> host_;
  // The same while its timers run.
  std::atomic<actor_system_host*> timed_{nullptr};
  std::mutex mutex_;
  std::vector<caf::weak_actor_ptr> spawned_;
};

}  // namespace troupe
