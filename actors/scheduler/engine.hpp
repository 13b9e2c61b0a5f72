#pragma once

#include <caf/execution_unit.hpp>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "troupe/actors/sync/completion.hpp"
#include "troupe/actors/sync/gate.hpp"
#include "troupe/transport/transport.hpp"

namespace caf {
class resumable;
}

namespace troupe {

class engine;
class node_core;
class opened_envelope;

/// Calls that a thread, while it waits, runs itself, rather than leave them to another thread that
/// has to be woken for them: they belong to what it waits for. Where the wait does not drive the
/// network they run elsewhere as usual.
class expected_calls {
public:
  virtual bool contain(const opened_envelope& call) const noexcept = 0;

  /// While it lives, these are the calling thread's.
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

/// The execution unit of one thread: what an actor or call runs on. Work that it makes ready goes
/// to the node's run queue, except for one actor that the leader is about to run itself.
class engine_unit final : public caf::execution_unit {
public:
  explicit engine_unit(engine& owner) : owner_(owner) {}

  void exec_later(caf::resumable* job) override;

  /// The same before what is not urgent, on whichever thread.
  void exec_urgent(caf::resumable* job);

  /// How many jobs this unit has left to other threads.
  unsigned handed_on() const noexcept { return handed_on_; }

  void attach(caf::actor_system& system) noexcept { system_ = &system; }

  /// Which calls the thread would run that waits with this unit; nullptr: none.
  const expected_calls* expected() const noexcept { return expected_; }

private:
  friend class thread_engine;

  engine& owner_;
  caf::resumable* next_ = nullptr;
  bool collecting_ = false;
  unsigned handed_on_ = 0;
  const completion* awaited_ = nullptr;  // what this thread waits for while it leads
  const expected_calls* expected_ = nullptr;
  std::uint64_t key_ = 0;  // this thread's claim to the role, while it has one
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

/// Who lets a thread wait for what no network of its own brings.
class wait_context {
public:
  virtual ~wait_context() = default;

  /// Blocks until `what` is ready or the deadline has passed; true: ready. Throws not_initialized
  /// when the node of the calling thread ends.
  virtual bool block_until(completion& what, clock::time_point deadline) = 0;
};

/// What runs a node: who progresses its network, on which threads its handlers run, how they wait.
/// `thread_engine` does it with threads, `virtual_engine` in a simulation.
class engine : public wait_context {
public:
  /// The sink to build the transport with.
  virtual transport::sink& as_sink() noexcept = 0;

  /// Starts to run. `net` must outlive `stop`. Throws std::system_error.
  virtual void start(transport::transport& net) = 0;

  /// Nobody waits in this engine from now on. Its own threads, which run handlers, get
  /// not_initialized; others sleep on without it. Returns when all have left.
  virtual void end_waits() = 0;

  /// Ends the waits and the threads. What is left in the queue is run when it is a function, so
  /// that no future stays open, and handed to `drop` otherwise.
  virtual void stop(const std::function<void(caf::resumable*)>& drop) = 0;

  /// Units made from now on belong to `system`.
  virtual void attach(caf::actor_system& system) = 0;

  /// The actor with this id belongs to the runtime and never blocks: what it has to do comes before
  /// all else, and is done also where every thread is taken by a handler.
  virtual void set_system_actor(std::uint64_t) {}

  /// Puts work into the run queue and sees to it that somebody comes. Any thread.
  virtual void push(caf::resumable* job) = 0;

  /// The same, before all that was pushed by `push`.
  virtual void push_urgent(caf::resumable* job) = 0;

  /// The same, unless the engine has been stopped; then false, and the job is still the caller's.
  virtual bool push_if_open(caf::resumable* job) = 0;

  /// Runs `body` here and now, and is not stopped meanwhile; false, and nothing is run: it has
  /// been. `body` must not wait.
  virtual bool run_if_open(const std::function<void()>& body) = 0;

  /// Blocks until `what` is ready or the deadline has passed; true: ready. Drives the network
  /// meanwhile. Throws not_initialized in a handler whose node has ended its waits.
  virtual bool wait(completion& what, clock::time_point deadline) = 0;

  /// The same for what no network brings.
  static bool wait_without_network(completion& what, clock::time_point deadline);

  /// May the calling thread block: does it run a handler or code of the program, rather than
  /// drive a network?
  static bool may_block() noexcept;

  /// A message that arrives here without the network: from the node to itself. Any thread.
  virtual void deliver_locally(transport::incoming_message&& message) = 0;

  /// `run_timers` shall be called at `when` at the latest. No system call unless that is earlier
  /// than what is set.
  virtual void set_timer(clock::time_point when) = 0;

  /// The network has work that nobody may be driving. Any thread.
  virtual void wake_network() = 0;

  /// Marks `what` as happened and wakes whoever waits for it, in whichever way. Any thread.
  virtual void finish(completion& what) = 0;

  /// May user code run on this thread right now (it is a network thread that leads)?
  virtual bool may_run_inline(const engine_unit& unit) const noexcept = 0;

  /// Runs `body` as a handler: it may take as long as it likes, and the network goes to another
  /// thread if it does. Pre: `may_run_inline(unit)`.
  template <class F>
  void run_handler(engine_unit& unit, F&& body) {
    begin_handler(unit);
    body();
    end_handler(unit);
  }

  /// Runs `body`, a call that the waiting thread of `unit` has expected, on its stack; the network
  /// goes to another thread if it takes long. The thread's own state is kept.
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

  /// While it lives, the calling thread runs work of this engine, whosever thread it is.
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
    const node_core* const node_;  // for which the thread ran an actor meanwhile, and which
    const std::uint64_t actor_;
  };

  /// Does the calling thread run that actor of that node, be it on behalf of others by now? Then
  /// the actor can answer nothing until this thread goes back.
  static bool runs_actor(const node_core& node, std::uint64_t actor) noexcept;

  struct census {
    unsigned threads = 0;
    unsigned idle = 0;
    bool queue_empty = true;
  };
  virtual census count() const = 0;

  /// Does nothing run or wait to run here, but for the caller?
  virtual bool quiet() const noexcept = 0;

  /// Handlers that may run or wait at one time; 0: any number.
  virtual unsigned most_handlers() const noexcept { return 0; }

  /// Is there such a job in the run queue? Nobody takes jobs while it looks, and `is` neither adds
  /// one nor waits.
  virtual bool any_queued(const std::function<bool(caf::resumable&)>&) const { return false; }

  /// Takes such jobs out of the run queue, uses them here and now, and drops them.
  virtual void take_queued(const std::function<bool(caf::resumable&)>& /*is*/,
                           const std::function<void(caf::resumable&)>& /*use*/) {}

  /// Is the caller a thread of this engine?
  virtual bool is_own_thread() const noexcept = 0;

  /// Does the caller run work of this engine, on a thread of it or as a guest? Then it cannot wait
  /// for the engine's end.
  bool runs_here() const noexcept;

  /// Blocks until nobody is inside of `what`, which is closed, and lets those leave.
  virtual void wait_until_empty(const gate& what) { what.wait_until_empty(); }

  /// Locks what its holder may keep for long.
  virtual void lock(std::mutex& what) { what.lock(); }

  /// Runs `body` on a thread that is none of this engine's; false: the caller must find one.
  virtual bool run_aside(std::function<void()>) { return false; }

  /// Does it run in a simulation, on threads that are not its own?
  virtual bool simulated() const noexcept { return false; }

protected:
  virtual void begin_handler(engine_unit& unit) = 0;
  virtual void end_handler(engine_unit& unit) = 0;
  virtual void run_expected(engine_unit&, void (*body)(void*), void* what) { body(what); }
  virtual void foreign_run_begins() noexcept = 0;
  virtual void foreign_run_ends() noexcept = 0;
  virtual std::uint64_t begin_network_work() noexcept { return 0; }
  virtual void end_network_work(std::uint64_t) noexcept {}
};

}  // namespace troupe
