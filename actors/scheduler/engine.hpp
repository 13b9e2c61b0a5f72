#pragma once

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>
#include <cstdint>
#include <functional>
#include <mutex>

#include "troupe/actors/sync/completion.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

class engine;
class node_context;
class opened_envelope;

/// Calls that a waiting thread runs itself, since what it waits for depends on them: another thread
/// would have to be woken for each. While the wait does not drive the network they run elsewhere as
/// usual.
class expected_calls {
public:
  virtual bool contain(const opened_envelope& call) const noexcept = 0;

  /// While it lives, the calling thread runs `calls` while it waits.
  class scope {
  public:
    explicit scope(const expected_calls& calls) noexcept;
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

  private:
    const expected_calls* const before_;
  };

protected:
  ~expected_calls() = default;
};

/// The execution unit of one thread, on which actors and calls run. Work that they make ready goes
/// to the node's run queue, except for one actor that the leader is about to run itself.
class engine_unit final : public caf::execution_unit {
public:
  explicit engine_unit(engine& owner) : owner_(owner) {}

  void exec_later(caf::resumable* item) override;

  /// The same, ahead of what is not urgent, on any thread.
  void exec_urgent(caf::resumable* item);

  /// How many work items this unit has left to other threads.
  unsigned handed_on() const noexcept { return handed_on_; }

  void attach(caf::actor_system& system) noexcept { system_ = &system; }

  /// The calls that the thread waiting with this unit would run itself; nullptr: none.
  const expected_calls* expected() const noexcept { return expected_; }

private:
  friend class thread_engine;

  engine& owner_;
  caf::resumable* next_ = nullptr;
  bool collecting_ = false;
  unsigned handed_on_ = 0;
  const completion* awaited_ = nullptr;  // what this thread waits for while it leads
  const expected_calls* expected_ = nullptr;
  std::uint64_t key_ = 0;  // proves that this thread leads; 0: it does not
};

/// The node, as its engine sees it: what to do with what arrives, and how to run it. Virtual calls,
/// some per handler; none of them takes a lock or allocates on the engine's behalf.
class dispatcher {
public:
  virtual ~dispatcher() = default;

  /// Takes one message apart. Actors that get messages from it are enqueued with `unit` as host; a
  /// call is run by `engine::run_handler` or queued. On the leading thread; never runs user code
  /// otherwise.
  virtual void dispatch(transport::incoming_message&& message, engine_unit& unit) = 0;

  /// A peer is lost. On the leading thread.
  virtual void peer_lost(transport::rank_t peer, const transport::peer_loss& why) = 0;

  /// Runs the timers that are due; returns when it wants to be called next. On the timer thread.
  virtual clock::time_point run_timers(clock::time_point now) = 0;

  /// Gives a handler a clean thread: grad mode, dispatch keys and the like.
  virtual void prepare_thread() noexcept = 0;

  /// Runs `item` with `unit` on the calling thread, which is prepared: of an actor at most `most`
  /// messages. What it leaves behind on the thread is gone when it returns. The reference to `item`
  /// stays the caller's. Handler code: it may block.
  virtual caf::resumable::resume_result resume(caf::resumable& item, engine_unit& unit,
                                               std::size_t most) = 0;

  /// Runs `body`, handler code, in the middle of a wait of the calling thread: it finds a prepared
  /// thread, and afterwards the thread is what it was. The wait does not count as one meanwhile.
  virtual void run_between(function_ref<void()> body) = 0;
};

/// Lets a thread wait for a completion that no network of its own brings.
class wait_context {
public:
  virtual ~wait_context() = default;

  /// Blocks until `what` is ready or the deadline has passed; true: ready. Throws not_initialized
  /// when the node of the calling thread ends.
  virtual bool block_until(completion& what, clock::time_point deadline) = 0;
};

/// Runs a node: progresses its network, runs its handlers on threads, and lets them wait.
/// `thread_engine` does it with threads of its own, `virtual_engine` in a simulation.
class engine : public wait_context {
public:
  /// The sink to build the transport with.
  virtual transport::sink& as_sink() noexcept = 0;

  /// Starts to run. `net` must outlive `stop`. Throws std::system_error.
  virtual void start(transport::transport& net) = 0;

  /// Ends all waits in this engine, now and later. Its own threads, which run handlers, get
  /// not_initialized; others go on waiting without it. Returns when all have left.
  virtual void end_waits() = 0;

  /// Ends the waits and the threads. Functions that are left in the queue are run, so that no
  /// future stays open; other work is handed to `drop`.
  virtual void stop(const std::function<void(caf::resumable*)>& drop) = 0;

  /// Units made from now on belong to `system`.
  virtual void attach(caf::actor_system& system) = 0;

  /// Makes the actor with this id the one that never waits for a thread: it belongs to the runtime
  /// and never blocks, its work comes before all other, and is also done while handlers hold every
  /// thread.
  virtual void set_system_actor(std::uint64_t) {}

  /// Puts work into the run queue and wakes a thread for it. Any thread.
  virtual void push(caf::resumable* item) = 0;

  /// The same, before all that was pushed by `push`.
  virtual void push_urgent(caf::resumable* item) = 0;

  /// The same, unless the engine has been stopped; then false, and the item is still the caller's.
  virtual bool push_if_open(caf::resumable* item) = 0;

  /// Runs `body` on the calling thread and is not stopped meanwhile. False, and nothing is run, if
  /// the engine has been stopped. `body` must not wait for anything but room at a receiver,
  /// which the end of the node gives up before it stops the engine.
  virtual bool run_if_open(const std::function<void()>& body) = 0;

  /// Blocks until `what` is ready or the deadline has passed; true: ready. Drives the network
  /// meanwhile. Throws not_initialized in a handler whose node has ended its waits.
  virtual bool wait(completion& what, clock::time_point deadline) = 0;

  /// The same for a completion that no network brings.
  static bool wait_without_network(completion& what, clock::time_point deadline);

  /// May the calling thread block? Yes if it runs a handler or code of the program, no if it drives
  /// a network.
  static bool may_block() noexcept;

  /// Delivers a message of the node to itself, without the network. Any thread.
  virtual void deliver_locally(transport::incoming_message&& message) = 0;

  /// Has `run_timers` called at `when` at the latest. Makes a system call only if that is earlier
  /// than the time set so far.
  virtual void set_timer(clock::time_point when) = 0;

  /// Wakes a thread to progress the network. Any thread.
  virtual void wake_network() = 0;

  /// Marks `what` as happened and wakes its waiters, however they wait. Any thread.
  virtual void finish(completion& what) = 0;

  /// May user code run on this thread right now? Yes if it is a network thread that leads.
  virtual bool may_run_inline(const engine_unit& unit) const noexcept = 0;

  /// Runs `body` as a handler: it may take as long as it likes, and the network goes to another
  /// thread if it does. Pre: `may_run_inline(unit)`.
  template <class F>
  void run_handler(engine_unit& unit, F&& body) {
    begin_handler(unit);
    body();
    end_handler(unit);
  }

  /// Runs `body`, a call that the waiting thread of `unit` has expected, on that thread's stack;
  /// the network goes to another thread if it takes long. See dispatcher::run_between.
  template <class F>
  void run_expected(engine_unit& unit, F&& body) {
    run_expected(
        unit, [](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); }, &body);
  }

  /// While it lives, what the calling thread does counts as work for the network, not for the
  /// handler that it runs: sending a large tensor shall not cost it the network.
  class network_work {
  public:
    explicit network_work(engine& of) noexcept : engine_(of), key_(of.begin_network_work()) {}
    ~network_work() {
      if (key_ != 0) engine_.end_network_work(key_);
    }
    network_work(const network_work&) = delete;
    network_work& operator=(const network_work&) = delete;

  private:
    engine& engine_;
    std::uint64_t key_;  // 0: this thread does not lead
  };

  /// Is that actor of that node at work on the calling thread, perhaps below other work that the
  /// thread has begun since? Then the actor answers nothing until the thread returns to it.
  static bool runs_actor(const node_context& node, std::uint64_t actor) noexcept;

  struct thread_counts {
    unsigned threads = 0;
    unsigned idle = 0;
    bool queue_empty = true;
  };
  virtual thread_counts count() const = 0;

  /// Does nothing run or wait to run here, the caller excepted?
  virtual bool quiet() const noexcept = 0;

  /// Handlers that may run or wait at one time; 0: any number.
  virtual unsigned most_handlers() const noexcept { return 0; }

  /// Does `is` hold for any item in the run queue? None is taken out meanwhile; `is` must neither
  /// add one nor wait.
  virtual bool any_queued(const std::function<bool(caf::resumable&)>&) const { return false; }

  /// Takes those for which `is` holds out of the run queue, calls `use` with each, and drops them.
  virtual void take_queued(const std::function<bool(caf::resumable&)>& /*is*/,
                           const std::function<void(caf::resumable&)>& /*use*/) {}

  /// Is the caller a thread of this engine?
  virtual bool is_own_thread() const noexcept = 0;

  /// Does the caller run work of this engine, on a thread of it or in a foreign_run_scope? Then it
  /// cannot wait for the engine's end.
  bool runs_here() const noexcept;

  /// Blocks until `what`, which is closed, is empty, and lets those leave that are inside.
  virtual void wait_until_empty(const gate& what) { what.wait_until_empty(); }

  /// Locks a mutex that its holder may keep for long.
  virtual void lock(std::mutex& what) { what.lock(); }

  /// Runs `body` on a thread that is not this engine's; false: the caller must find one.
  virtual bool run_aside(std::function<void()>) { return false; }

  /// Does it run in a simulation, on the simulation's threads?
  virtual bool simulated() const noexcept { return false; }

protected:
  friend class foreign_run_scope;

  virtual void begin_handler(engine_unit& unit) = 0;
  virtual void end_handler(engine_unit& unit) = 0;
  virtual void run_expected(engine_unit&, void (*body)(void*), void* what) { body(what); }
  virtual void foreign_run_begins() noexcept = 0;
  virtual void foreign_run_ends() noexcept = 0;
  virtual std::uint64_t begin_network_work() noexcept { return 0; }
  virtual void end_network_work(std::uint64_t) noexcept {}
};

/// While it lives, the calling thread, which may belong to nobody or to another engine, runs work
/// of the engine `of`.
class foreign_run_scope {
public:
  explicit foreign_run_scope(engine& of) noexcept;
  ~foreign_run_scope();
  foreign_run_scope(const foreign_run_scope&) = delete;
  foreign_run_scope& operator=(const foreign_run_scope&) = delete;

private:
  friend class engine;
  engine& of_;
  const foreign_run_scope* const before_;
  const node_context* const node_;  // for which the thread ran an actor until now, and which
  const std::uint64_t actor_;
};

}  // namespace troupe
