#pragma once

#include <caf/execution_unit.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "troupe/actors/sync/completion.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/actors/scheduler/run_queue.hpp"
#include "troupe/actors/scheduler/cpu_placement.hpp"
#include "troupe/actors/scheduler/spin_policy.hpp"
#include "troupe/actors/scheduler/leader_role.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

struct engine_options {
  std::chrono::microseconds spin{50};  ///< polls this long after traffic before it sleeps
  /// The same where waits have been shorter than this of late, unless others compute on the
  /// processor. What comes later loses little of its time to a wake-up.
  std::chrono::microseconds spin_busy{2'000};
  /// The same while a peer fetches a tensor from here: the answer comes soon after.
  std::chrono::microseconds spin_sending{500};
  std::chrono::microseconds yield_after{2};  ///< of empty polling
  /// A handler that runs longer loses the network. Up to sixteen times as long after short ones,
  /// and where it was taken in vain: the handler ended soon after.
  std::chrono::microseconds takeover{50};
  /// That lead or run handlers. One more minds the timers, so that calls end even where all others
  /// wait.
  unsigned max_threads = 1024;
  /// Spares beyond the few that every node has end after so long.
  std::chrono::milliseconds retire_after{10'000};
};

/// The threads of a node and how they share its network.
///
/// One thread at a time leads: it progresses the transport and runs handlers inline, with no hop to
/// another thread. A thread that waits for a completion leads while it waits, but runs no user code
/// on its stack, except for calls that belong to what it waits for (see expected_calls): it queues
/// what it finds. When a handler runs longer than `takeover`, a second
/// thread takes the network from its thread. One thread minds the timers; spares sleep. Threads are
/// added when all are blocked, so any number of handlers may wait for one another's answers.
///
/// An idle node sleeps in two system calls and wakes for nothing but work.
class thread_engine final : public engine, private transport::sink {
public:
  thread_engine(dispatcher& client, engine_options options);
  ~thread_engine() override;

  transport::sink& as_sink() noexcept override { return *this; }
  void start(transport::transport& net) override;
  void end_waits() override;
  void stop(const std::function<void(caf::resumable*)>& drop) override;
  void attach(caf::actor_system& system) override;
  void set_system_actor(std::uint64_t actor) override { system_actor_.store(actor); }
  void push(caf::resumable* job) override;
  void push_urgent(caf::resumable* job) override;
  bool push_if_open(caf::resumable* job) override;
  bool run_if_open(const std::function<void()>& body) override;
  bool wait(completion& what, clock::time_point deadline) override;
  bool block_until(completion& what, clock::time_point deadline) override;
  void deliver_locally(transport::incoming_message&& message) override;
  void set_timer(clock::time_point when) override;
  void wake_network() override;
  void finish(completion& what) override;
  bool may_run_inline(const engine_unit& unit) const noexcept override {
    return leader_role::by_network_thread(unit.key_);
  }
  census count() const override;
  unsigned most_handlers() const noexcept override;
  bool any_queued(const std::function<bool(caf::resumable&)>& is) const override {
    return queue_.any(is);
  }
  void take_queued(const std::function<bool(caf::resumable&)>& is,
                   const std::function<void(caf::resumable&)>& use) override;
  bool quiet() const noexcept override;
  bool is_own_thread() const noexcept override;

private:
  struct parked_thread;

  // transport::sink
  void on_message(transport::incoming_message&& message) override;
  void on_peer_lost(transport::rank_t peer, transport::peer_loss why) override;

  void spawn();
  void thread_main();
  void lead(engine_unit& unit);
  void lead_while_waiting(completion& what, clock::time_point deadline, engine_unit& unit);
  void hand_back(engine_unit& unit);
  void find_leader();
  std::chrono::microseconds spin() const;
  bool sleep_in_network(engine_unit& unit, clock::time_point deadline,
                        clock::time_point waits_since);
  unsigned poll(engine_unit& unit);
  caf::resumable* take_job();
  void run(caf::resumable* job, engine_unit& unit);
  void begin_handler(engine_unit& unit) override;
  void end_handler(engine_unit& unit) override;
  void resume_after_handler(engine_unit& unit);
  void run_expected(engine_unit& unit, void (*body)(void*), void* what) override;
  void foreign_run_begins() noexcept override { running_.fetch_add(1, std::memory_order_relaxed); }
  void foreign_run_ends() noexcept override { running_.fetch_sub(1, std::memory_order_release); }
  std::uint64_t begin_network_work() noexcept override;
  void end_network_work(std::uint64_t key) noexcept override;

  bool occupy() noexcept;
  bool work_waits() const noexcept;
  bool have_jobs() const noexcept { return !queue_.empty() || !first_.empty(); }
  bool is_system_actor(caf::resumable* job) const noexcept;
  void run_aside_of_handlers(engine_unit& unit);
  leader_role::snapshot mind(engine_unit& unit);
  leader_role::snapshot on_takeover_timer(engine_unit& unit);
  unsigned look_at_network(engine_unit& unit, leader_role::snapshot seen);
  void look_less_often() noexcept;
  void rate_takeover() noexcept;
  void on_deadline_timer();
  void arm_takeover();
  void arm_takeover(int patience);
  void set_takeover(clock::time_point now, clock::duration span);
  void put_off_takeover(clock::time_point now);
  void summon_runner();
  bool ask_for_role(completion& what, leader_role::snapshot& key);
  void park_waiter(completion& what, clock::time_point deadline);
  void drive_until(completion& what, clock::time_point deadline);
  void run_what_is_left(engine_unit& unit);

  void open_timers();
  void close_timers() noexcept;
  void wake_timer_thread();
  bool leader_polls_queue() const noexcept;
  void ensure_timer_thread();
  bool park();
  bool wake_parked();

  dispatcher& client_;
  const engine_options options_;
  transport::transport* net_ = nullptr;
  std::atomic<caf::actor_system*> system_{nullptr};

  leader_role role_;
  std::atomic<int> wanted_{0};            // waiters who would rather lead themselves
  std::atomic<bool> handed_over_{false};  // a waiter wants a network thread to lead
  std::atomic<std::uint64_t> handler_number_{0};
  spin_policy waits_of_late_{options_.spin_busy};
  cpu_placement processor_;

  // What a lost peer has said comes before its loss: it may be why it has gone.
  struct arrival {
    transport::incoming_message message;
    std::unique_ptr<transport::peer_loss> lost;  // of `message.from`, and nothing else
  };

  std::deque<arrival> inbox_;  // the leader's

  std::mutex local_mutex_;
  std::deque<transport::incoming_message> local_;
  std::atomic<bool> have_local_{false};

  run_queue queue_;
  run_queue first_;                          // jobs of `system_actor_`
  std::atomic<std::uint64_t> system_actor_{0};  // an actor's id
  std::atomic<unsigned> occupied_{0};        // threads that lead or run handlers
  run_queue dropped_;                        // actors that had work when the threads ended
  gate waits_;                               // for all who wait; closed by `end_waits`
  gate entrance_;                // for jobs and wake-ups from outside; closed by `stop`, later
  std::atomic<int> running_{0};  // handlers that run now

  std::mutex waiters_mutex_;
  std::vector<completion*> waiters_;  // asleep, ready to lead when poked
  std::vector<completion*> held_;     // handlers that wait for what is not this node's
  std::atomic<int> waiter_count_{0};

  mutable std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  std::atomic<bool> short_of_threads_{false};  // the system gave none when last asked
  std::vector<std::thread::id> retired_;
  std::vector<parked_thread*> parked_;
  std::atomic<int> parked_count_{0};
  std::atomic<unsigned> thread_count_{0};
  std::atomic<bool> minded_{false};
  std::atomic<bool> stopping_{false};

  int epoll_ = -1;
  int takeover_timer_ = -1;
  int deadline_timer_ = -1;
  int wake_ = -1;
  std::atomic<bool> takeover_armed_{false};
  std::atomic<clock::rep> takeover_due_{0};
  std::atomic<int> takeover_patience_{1};  // times `options_.takeover`
  std::atomic<int> least_patience_{1};     // as it has learned
  std::atomic<clock::rep> taken_over_{0};  // when, from a handler that still runs; 0: none
  std::atomic<bool> second_look_{false};
  leader_role::snapshot glanced_at_ = 0;  // the minder's: as it has left the role
  std::atomic<std::uint64_t> armed_for_handler_{0};
  std::mutex timer_mutex_;
  std::atomic<clock::rep> next_timer_{clock::time_point::max().time_since_epoch().count()};
};

}  // namespace troupe
