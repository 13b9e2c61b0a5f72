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

class virtual_engine;

/// Runs the nodes of a simulation, one step at a time, in an order that a seed
/// decides, with a clock that jumps to whatever happens next.
///
/// Threads pass a baton: who has it runs, all others sleep. A handler that
/// blocks keeps its thread and its stack, and another thread takes the baton
/// on; so handlers may block as they do on real nodes, and a run is still a
/// function of its seed. The thread that makes the world is one of the
/// program's threads and has the baton. All functions are for whoever has it.
class world final : public wait_context {
public:
  struct options {
    std::uint64_t seed = 1;
    std::chrono::nanoseconds service{1'000};        ///< a step takes a node up to so long
    clock::duration limit = std::chrono::hours(1);  ///< of its own time; then it stands still
    std::function<void(const std::string&)> trace;  ///< hears of each message; unset: costs nothing
  };

  world(options how, std::shared_ptr<transport::virtual_network> network);
  ~world() override;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  clock::time_point now() const noexcept { return now_; }
  transport::virtual_net::random_source& random() noexcept { return random_; }
  const std::function<void(const std::string&)>& trace() const noexcept { return options_.trace; }

  /// From now on time may pass its limit: all that goes on is the end.
  void lift_limit() noexcept { end_ = never; }

  /// Ends it: nodes have ended before. Threads of the program that still wait get not_initialized.
  void end();

  /// A node does nothing for so long; everything takes it so many times as long.
  void hang(transport::rank_t rank, std::chrono::nanoseconds time);
  void slow(transport::rank_t rank, double times);

  /// Another thread of the program.
  void spawn(std::function<void()> body);

  /// Blocks the calling thread until `what` is ready or the deadline has
  /// passed, while the world goes on. In a handler or wait of `in`, also until
  /// that ends its waits. Throws deadlock_error on the world's own thread when
  /// nothing can happen any more, and not_initialized when the world ends.
  bool block(completion& what, clock::time_point deadline, virtual_engine* in);
  bool block_until(completion& what, clock::time_point deadline) override {
    return block(what, deadline, nullptr);
  }

  /// Steps taken since the beginning.
  std::uint64_t steps() const noexcept { return steps_; }

  // For engines.
  void enter(virtual_engine& one, transport::rank_t rank);
  void leave(virtual_engine& one);
  void activate(virtual_engine& one);
  void set_timer(virtual_engine& one, clock::time_point when);
  /// `one` does nothing before `until`.
  void pause(virtual_engine& one, clock::time_point until);

private:
  /// Sleeps at once. The standard library's semaphore yields sixteen times before it does, and each
  /// yield is a whole turn of everybody else where others want the processor.
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
    virtual_engine* in;
  };

  void thread_main(strand& me);
  void step(strand& me);
  bool may_resume(const blocked& one) const;
  bool pass_time();
  void tell_of_deadlock(strand& me);
  void give_to(strand& next, strand& me);
  strand& idle_strand();
  clock::duration service_of(const virtual_engine& one);

  const options options_;
  const std::shared_ptr<transport::virtual_network> network_;
  transport::virtual_net::random_source random_;
  clock::time_point now_;
  std::uint64_t steps_ = 0;
  std::uint64_t last_id_ = 0;

  std::vector<std::unique_ptr<strand>> strands_;
  std::vector<strand*> idle_;
  strand main_;
  std::vector<blocked> blocked_;
  std::vector<std::function<void()>> starting_;
  std::map<transport::rank_t, virtual_engine*> by_rank_;
  std::vector<virtual_engine*> active_;
  std::set<std::pair<clock::time_point, std::uint64_t>> timers_;  // of engines, by id
  std::map<std::uint64_t, virtual_engine*> by_id_;
  clock::time_point end_;
  bool deadlock_ = false;
  bool ending_ = false;
};

}  // namespace troupe
