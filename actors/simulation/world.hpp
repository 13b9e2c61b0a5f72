#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/sync/futex.hpp"
#include "troupe/messages/base/random.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe {

/// A node in a simulation's world, which gives it turns. Used by the thread that has the baton.
class simulated_node {
public:
  /// Can it do something at this moment?
  virtual bool has_work() const = 0;

  /// Does one of the things that it could do next. Pre: `has_work()`. May destroy the node.
  virtual void turn() = 0;

  /// Have its waits been ended?
  virtual bool waits_ended() const noexcept = 0;

protected:
  explicit simulated_node(transport::rank_t rank) noexcept : rank_(rank) {}
  simulated_node(const simulated_node&) = delete;
  simulated_node& operator=(const simulated_node&) = delete;
  ~simulated_node() = default;

  transport::rank_t rank() const noexcept { return rank_; }
  clock::time_point timer() const noexcept { return timer_; }
  bool network_ready() const noexcept { return network_ready_; }
  void network_taken() noexcept { network_ready_ = false; }

private:
  friend class world;

  const transport::rank_t rank_;
  std::uint64_t id_ = 0;        // in its world
  bool active_ = false;         // it waits for a turn
  bool network_ready_ = false;  // something has arrived for it
  clock::time_point timer_ = never;
  clock::time_point paused_until_ = clock::time_point::min();
  double slowness_ = 1;
};

/// Runs the nodes of a simulation, one step at a time, in an order that a seed decides, with a
/// clock that jumps to whatever happens next.
///
/// Threads pass a baton: the one that has it runs, all others sleep. A handler that blocks keeps
/// its thread and its stack, and another thread takes the baton; so handlers may block as they do
/// on real nodes, and a run is still a function of its seed. The thread that makes the world is one
/// of the program's threads and has the baton first. All functions are for the thread that has the
/// baton.
class world final : public wait_context {
public:
  struct options {
    std::uint64_t seed = 1;
    std::chrono::nanoseconds service{1'000};        ///< a step takes a node up to this long
    clock::duration limit = std::chrono::hours(1);  ///< of its own time; then it stands still
    std::function<void(const std::string&)>
        trace;  ///< called with each message; unset: costs nothing
  };

  world(const options& how, std::shared_ptr<transport::virtual_network> network);
  ~world() override;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  clock::time_point now() const noexcept { return now_; }
  random_source& random() noexcept { return random_; }
  const std::function<void(const std::string&)>& trace() const noexcept { return options_.trace; }

  /// From now on time may pass the limit: the simulation is being ended.
  void lift_limit() noexcept { end_ = never; }

  /// Ends the world. Pre: its nodes have ended. Threads of the program that still wait get
  /// not_initialized.
  void end();

  /// The node of that rank does nothing for `time`; everything takes it `times` as long.
  void hang(transport::rank_t rank, std::chrono::nanoseconds time);
  void slow(transport::rank_t rank, double times);

  /// Runs `body` as another thread of the program.
  void spawn(std::function<void()> body);

  /// Blocks the calling thread until `what` is ready or the deadline has passed, while the world
  /// goes on; in a handler or wait of `in`, also until that ends its waits. Throws deadlock_error
  /// on the thread that has made the world when nothing can happen any more, and not_initialized
  /// when the world ends.
  bool block(completion& what, clock::time_point deadline, simulated_node* in);
  bool block_until(completion& what, clock::time_point deadline) override {
    return block(what, deadline, nullptr);
  }

  /// Steps taken since the beginning.
  std::uint64_t steps() const noexcept { return steps_; }

  // For nodes.
  void enter(simulated_node& one);
  void leave(simulated_node& one);
  void activate(simulated_node& one);
  void set_timer(simulated_node& one, clock::time_point when);
  /// `one` gets no turn before `until`.
  void pause(simulated_node& one, clock::time_point until);

private:
  /// A binary semaphore whose `acquire` sleeps at once. The standard library's yields sixteen times
  /// before it sleeps, and each yield takes a whole time slice of every thread that wants the
  /// processor.
  class baton {
  public:
    void release() noexcept;
    void acquire() noexcept;

  private:
    std::atomic<std::uint32_t> held_{0};
  };
  struct strand {
    world::baton baton;
    std::thread thread;
  };
  struct blocked {
    strand* who;
    completion* what;
    clock::time_point deadline;
    simulated_node* in;
  };

  void thread_main(strand& me);
  void step(strand& me);
  bool may_resume(const blocked& one) const;
  bool pass_time();
  void report_deadlock(strand& me);
  void give_to(strand& next, strand& me);
  strand& idle_strand();
  clock::duration service_of(const simulated_node& one);

  const options options_;
  const std::shared_ptr<transport::virtual_network> network_;
  random_source random_;
  clock::time_point now_;
  std::uint64_t steps_ = 0;
  std::uint64_t last_id_ = 0;

  std::vector<std::unique_ptr<strand>> strands_;
  std::vector<strand*> idle_;
  strand main_;
  std::vector<blocked> blocked_;
  std::vector<std::function<void()>> starting_;
  std::map<transport::rank_t, simulated_node*> by_rank_;
  std::vector<simulated_node*> active_;
  std::set<std::pair<clock::time_point, std::uint64_t>> timers_;  // of nodes, by id
  std::map<std::uint64_t, simulated_node*> by_id_;
  clock::time_point end_;
  bool deadlock_ = false;
  bool ending_ = false;
};

}  // namespace troupe
