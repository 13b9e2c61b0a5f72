#pragma once

#include <caf/execution_unit.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/completion.hpp"
#include "actors/gate.hpp"
#include "actors/role.hpp"
#include "actors/run_queue.hpp"
#include "transport/transport.hpp"

namespace troupe {

class engine;

/// The execution unit of one thread: what an actor or call runs on. Work that it makes ready goes
/// to the node's run queue, except for one actor that the leader is about to run itself.
class engine_unit final : public caf::execution_unit {
public:
  explicit engine_unit(engine& owner) : owner_(owner) {}

  void exec_later(caf::resumable* job) override;

  /// How many jobs this unit has left to other threads.
  unsigned handed_on() const noexcept { return handed_on_; }

  void attach(caf::actor_system& system) noexcept { system_ = &system; }

private:
  friend class engine;

  engine& owner_;
  caf::resumable* next_ = nullptr;
  bool collecting_ = false;
  unsigned handed_on_ = 0;
  const completion* awaited_ = nullptr;  // what this thread waits for while it leads
  leader_role::snapshot key_ = 0;        // this thread's claim to the role, while it has one
};

/// What a node does with what arrives.
class dispatcher {
public:
  virtual ~dispatcher() = default;

  /// Takes one message apart. Actors that get mail from it are enqueued with `unit` as host; a call
  /// is run by `engine::run_handler` or queued. On the leading thread; never runs user code
  /// otherwise.
  virtual void dispatch(transport::incoming_message&& message, engine_unit& unit) = 0;

  /// A peer is gone. On the leading thread.
  virtual void peer_lost(transport::rank_t peer, const transport::peer_loss& why) = 0;

  /// Timers that are due; returns when it wants to be called next. On the minder's thread.
  virtual clock::time_point run_timers(clock::time_point now) = 0;

  /// Gives a handler a clean thread: grad mode, dispatch keys and the like.
  virtual void prepare_thread() noexcept = 0;
};

struct engine_options {
  std::chrono::microseconds spin{50};  ///< polls this long after traffic before it sleeps
  /// The same while a peer fetches a tensor from here: the answer comes soon after.
  std::chrono::microseconds spin_sending{500};
  std::chrono::microseconds yield_after{2};  ///< of empty polling
  /// A handler that runs longer loses the network; up to eight times as long after many short ones.
  std::chrono::microseconds takeover{50};
  unsigned max_threads = 1024;
};

/// The threads of a node and how they share its network.
///
/// One thread at a time leads: it progresses the transport and runs handlers inline, with no hop to
/// another thread. A thread that waits for a completion leads while it waits, but never runs user
/// code on its stack: it queues what it finds. When a handler runs longer than `takeover`, a second
/// thread takes the network from its thread. One thread minds the timers; spares sleep. Threads are
/// added when all are blocked, so any number of handlers may wait for one another's answers.
///
/// An idle node sleeps in two system calls and wakes for nothing but work.
class engine final : private transport::sink {
public:
  engine(dispatcher& client, engine_options options);
  ~engine();

  /// The sink to build the transport with.
  transport::sink& as_sink() noexcept { return *this; }

  /// Starts the threads. `net` must outlive `stop`. Throws std::system_error.
  void start(transport::transport& net);

  /// Nobody waits in this engine from now on. Its own threads, which run handlers, get
  /// not_initialized; others sleep on without it. Returns when all have left.
  void end_waits();

  /// Ends the waits and the threads. What is left in the queue is run when it is a function, so
  /// that no future stays open, and handed to `drop` otherwise.
  void stop(const std::function<void(caf::resumable*)>& drop);

  /// Units made from now on belong to `system`.
  void attach(caf::actor_system& system);

  /// Puts work into the run queue and sees to it that somebody comes. Any thread.
  void push(caf::resumable* job);

  /// The same, unless the engine has been stopped; then false, and the job is still the caller's.
  bool push_if_open(caf::resumable* job);

  /// Blocks until `what` is ready or the deadline has passed; true: ready. Drives the network
  /// meanwhile. Throws not_initialized in a handler whose node has ended its waits.
  bool wait(completion& what, clock::time_point deadline);

  /// The same for what no network brings.
  static bool wait_without_network(completion& what, clock::time_point deadline);

  /// A message that arrives here without the network: from the node to itself. Any thread.
  void deliver_locally(transport::incoming_message&& message);

  /// `run_timers` shall be called at `when` at the latest. No system call unless that is earlier
  /// than what is set.
  void set_timer(clock::time_point when);

  /// The network has work that nobody may be driving. Any thread.
  void nudge();

  /// Marks `what` as happened and wakes whoever waits for it, in whichever way. Any thread.
  void finish(completion& what);

  /// May user code run on this thread right now (it is a network thread that leads)?
  static bool may_run_inline(const engine_unit& unit) noexcept {
    return leader_role::by_network_thread(unit.key_);
  }

  /// Runs `body` as a handler: it may take as long as it likes, and the network goes to another
  /// thread if it does. Pre: `may_run_inline(unit)`.
  template <class F>
  void run_handler(engine_unit& unit, F&& body) {
    begin_handler(unit);
    body();
    end_handler(unit);
  }

  /// While it lives, what the calling thread does counts as work for the network, not for the
  /// handler that it runs: sending a large tensor shall not cost it the network.
  class network_work {
  public:
    explicit network_work(engine& of) noexcept;
    ~network_work();
    network_work(const network_work&) = delete;
    network_work& operator=(const network_work&) = delete;

  private:
    engine& engine_;
    leader_role::snapshot key_ = 0;  // 0: this thread does not lead
  };

  struct census {
    unsigned threads = 0;
    unsigned idle = 0;
    bool queue_empty = true;
  };
  census count() const;

  /// Does nothing run or wait to run here, but for the caller?
  bool quiet() const noexcept;

  /// Is the caller a thread of this engine?
  bool is_own_thread() const noexcept;

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
  bool sleep_in_network(engine_unit& unit, clock::time_point deadline);
  unsigned poll(engine_unit& unit);
  caf::resumable* take_job();
  void run(caf::resumable* job, engine_unit& unit);
  void begin_handler(engine_unit& unit);
  void end_handler(engine_unit& unit);

  leader_role::snapshot mind();
  leader_role::snapshot on_takeover_timer();
  void on_deadline_timer();
  void arm_takeover();
  void arm_takeover(int patience);
  void summon_runner();
  bool ask_for_role(completion& what, leader_role::snapshot& key);
  void park_waiter(completion& what, clock::time_point deadline);
  void drive_until(completion& what, clock::time_point deadline);
  bool hold_handler(completion& what, clock::time_point deadline);
  void run_what_is_left(engine_unit& unit);

  void open_timers();
  void close_timers() noexcept;
  void poke_minder();
  bool leader_polls_queue() const noexcept;
  void ensure_minder();
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

  // Only the leader touches these.
  std::deque<transport::incoming_message> inbox_;
  std::deque<std::pair<transport::rank_t, transport::peer_loss>> lost_;

  std::mutex local_mutex_;
  std::deque<transport::incoming_message> local_;
  std::atomic<bool> have_local_{false};

  run_queue queue_;
  run_queue dropped_;            // actors that had work when the threads ended
  gate waits_;                   // for all who wait; closed by `end_waits`
  gate entrance_;                // for jobs and wake-ups from outside; closed by `stop`, later
  std::atomic<int> running_{0};  // handlers that run now

  std::mutex waiters_mutex_;
  std::vector<completion*> waiters_;  // asleep, ready to lead when poked
  std::vector<completion*> held_;     // handlers that wait for what is not this node's
  std::atomic<int> waiter_count_{0};

  mutable std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  bool short_of_threads_ = false;
  std::vector<std::thread::id> retired_;
  std::vector<parked_thread*> parked_;
  std::atomic<int> parked_count_{0};
  std::atomic<unsigned> thread_count_{0};
  std::atomic<bool> minded_{false};
  std::atomic<bool> stopping_{false};

  int epoll_ = -1;
  int takeover_timer_ = -1;
  int deadline_timer_ = -1;
  int poke_ = -1;
  std::atomic<bool> takeover_armed_{false};
  std::atomic<int> takeover_patience_{1};  // times `options_.takeover`
  bool second_look_ = false;               // the minder's
  std::atomic<std::uint64_t> armed_for_handler_{0};
  std::mutex timer_mutex_;
  std::atomic<clock::rep> next_timer_{clock::time_point::max().time_since_epoch().count()};
};

}  // namespace troupe
