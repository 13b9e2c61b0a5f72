#pragma once

#include <caf/execution_unit.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "troupe/actors/scheduler/cpu_placement.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/leader_role.hpp"
#include "troupe/actors/scheduler/run_queue.hpp"
#include "troupe/actors/scheduler/spin_policy.hpp"
#include "troupe/actors/sync/completion.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

struct engine_options {
  std::chrono::microseconds spin{50};  ///< the leader polls this long without traffic, then sleeps
  /// The same after waits that were shorter than this (see spin_policy), unless other threads
  /// compute on the processor. A wait that takes longer loses little of its time to a wake-up.
  std::chrono::microseconds spin_busy{2'000};
  /// The same while a peer fetches a tensor from here: the answer comes soon after.
  std::chrono::microseconds spin_sending{500};
  std::chrono::microseconds yield_after{2};  ///< of empty polling
  /// So long a waiting thread asks a network thread for the role, before it parks.
  std::chrono::microseconds ask_for_role{30};
  /// A handler that runs longer loses the network to another thread. Up to sixteen times as long
  /// after short handlers, and after a takeover in vain: the handler ended soon afterwards.
  std::chrono::microseconds takeover{50};
  /// Threads that lead or run handlers. There is always one more, the timer thread, so that calls
  /// time out even while handlers hold all others.
  unsigned max_threads = 1024;
  /// Idle threads beyond the few that every node keeps end after this time.
  std::chrono::milliseconds retire_after{10'000};
};

/// The threads of a node and how they share its network: Leader/Followers (see leader_role).
///
/// One thread at a time leads: it progresses the transport and runs handlers inline, with no hop to
/// another thread. A thread that waits for a completion leads while it waits, but runs no user code
/// on its stack, except for calls that belong to what it waits for (see expected_calls): other work
/// goes to the run queue. When a handler runs longer than `takeover`, a second thread takes the
/// network from its thread. One thread at a time is the timer thread, which sleeps until timers are
/// due; idle threads are parked. Threads are added when all are blocked, so that any number of
/// handlers may wait for one another's answers.
///
/// An idle node sleeps in two system calls and wakes only for work.
///
/// Locks, none of which is held while another one of them is taken, nor while user code runs:
/// `local_mutex_`, `waiters_mutex_`, `threads_mutex_`, `timer_mutex_`, and those of the run queues
/// (under which `any_queued` and `take_queued` call `is`). `end_waits` wakes the network under
/// `waiters_mutex_`, `stop` the network and the timer thread under `threads_mutex_`: these wake-ups
/// take none of the locks.
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
  void push(caf::resumable* item) override;
  void push_urgent(caf::resumable* item) override;
  bool push_if_open(caf::resumable* item) override;
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
  thread_counts count() const override;
  unsigned most_handlers() const noexcept override;
  bool any_queued(const std::function<bool(caf::resumable&)>& is) const override {
    return queue_.any(is);
  }
  void take_queued(const std::function<bool(caf::resumable&)>& is,
                   const std::function<void(caf::resumable&)>& use) override;
  bool quiet() const noexcept override;
  bool is_own_thread() const noexcept override;

  // Of a lent_thread, for the calling thread. False: there are too many.
  bool lend_thread() noexcept;
  void take_thread_back() noexcept;

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
  caf::resumable* take_item();
  void run(caf::resumable* item, engine_unit& unit);
  void begin_handler(engine_unit& unit) override;
  void end_handler(engine_unit& unit) override;
  void resume_after_handler(engine_unit& unit);
  void run_expected(engine_unit& unit, void (*body)(void*), void* what) override;
  // The end releases, see `quiet`; the beginning publishes nothing.
  void foreign_run_begins() noexcept override { running_.fetch_add(1, std::memory_order_relaxed); }
  void foreign_run_ends() noexcept override { running_.fetch_sub(1, std::memory_order_release); }
  std::uint64_t begin_network_work() noexcept override;
  void end_network_work(std::uint64_t key) noexcept override;

  bool occupy() noexcept;
  bool work_waits() const noexcept;
  bool have_items() const noexcept { return !queue_.empty() || !first_.empty(); }
  bool is_system_actor(caf::resumable* item) const noexcept;
  void run_system_actor(engine_unit& unit);
  leader_role::snapshot be_timer_thread(engine_unit& unit);
  leader_role::snapshot on_takeover_timer(engine_unit& unit);
  unsigned look_at_network(engine_unit& unit, leader_role::snapshot seen);
  void look_less_often() noexcept;
  void rate_takeover() noexcept;
  void on_deadline_timer();
  void arm_takeover();
  void arm_takeover(int factor);
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
  std::atomic<int> wanted_{0};            // waiters that ask a network thread for the role
  std::atomic<bool> handed_over_{false};  // a waiter wants a network thread to lead
  std::atomic<std::uint64_t> handler_number_{0};
  spin_policy spin_policy_{options_.spin_busy};
  cpu_placement placement_;

  // In order of arrival: a lost peer's last messages come before its loss, and may explain it.
  struct arrival {
    transport::incoming_message message;
    std::unique_ptr<transport::peer_loss> lost;  // of `message.from`, and nothing else
  };

  std::deque<arrival> inbox_;  // used by the leader only

  // Never held together with another lock of the engine, like the three below: see the class.
  std::mutex local_mutex_;
  std::deque<transport::incoming_message> local_;
  std::atomic<bool> have_local_{false};
  std::atomic<bool> wants_progress_{false};  // what was sent since the last look at the network

  run_queue queue_;
  run_queue first_;                             // items of `system_actor_`
  std::atomic<std::uint64_t> system_actor_{0};  // an actor's id
  std::atomic<unsigned> occupied_{0};           // threads that lead or run handlers
  run_queue dropped_;                           // actors that had work when the threads ended
  gate waits_;                                  // of all waits; closed by `end_waits`
  gate entrance_;                // of items and wake-ups from outside; closed by `stop`, later
  std::atomic<int> running_{0};  // handlers that run, and messages that are being taken in

  std::mutex waiters_mutex_;
  std::vector<completion*> waiters_;  // asleep, ready to lead when woken
  std::vector<completion*> held_;     // handlers that wait for what is not this node's
  std::atomic<int> waiter_count_{0};

  mutable std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  std::atomic<bool> short_of_threads_{false};  // the system gave none when last asked
  std::vector<std::thread::id> retired_;
  std::vector<parked_thread*> parked_;
  std::atomic<int> parked_count_{0};
  std::atomic<unsigned> thread_count_{0};  // without those that are lent
  std::atomic<unsigned> lent_{0};
  std::atomic<bool> timers_watched_{false};  // some thread is the timer thread
  std::atomic<bool> stopping_{false};

  int epoll_ = -1;
  int takeover_timer_ = -1;
  int deadline_timer_ = -1;
  int wake_ = -1;
  std::atomic<bool> takeover_armed_{false};
  std::atomic<clock::rep> takeover_due_{0};
  std::atomic<int> takeover_factor_{1};    // times `options_.takeover`
  std::atomic<int> least_factor_{1};       // as it has learned
  std::atomic<clock::rep> taken_over_{0};  // when, from a handler that still runs; 0: none
  std::atomic<bool> second_look_{false};
  leader_role::snapshot glanced_at_ = 0;  // the timer thread's: how it last left the role
  std::atomic<std::uint64_t> armed_for_handler_{0};
  std::mutex timer_mutex_;
  std::atomic<clock::rep> next_timer_{clock::time_point::max().time_since_epoch().count()};
};

}  // namespace troupe
