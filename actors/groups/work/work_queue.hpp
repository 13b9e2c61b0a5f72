#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "troupe/actors/scheduler/engine.hpp"

namespace troupe::groups {

/// Keeps the collectives of one rank of a group in order. One runs at a time: on the thread that
/// asks for it, if none runs or waits, or else, in the order in which they were asked for, on a
/// thread that waits for it (`run_up_to`) or on the queue's own, whichever comes first.
///
/// Waking a thread costs more than a small collective. So the queue's thread is woken at once only
/// if it has run the last item itself. If a thread that waited has, it looks every 100 us, takes
/// what has been there at two looks, and sleeps for good after 2 ms without an item.
///
/// In a simulation only the queue's own strand runs items. Thread-safe.
class work_queue : public std::enable_shared_from_this<work_queue> {
public:
  /// What runs later. It must not throw. `sequence`: its number.
  using item = std::function<void(std::uint64_t sequence)>;

  explicit work_queue(std::shared_ptr<engine> driver) : driver_(std::move(driver)) {}
  ~work_queue() {
    if (thread_.joinable()) thread_.detach();  // this is its own
  }

  /// The number of the collective that the caller may run now, and then calls `leave`; 0: others
  /// run or wait. Hot path.
  std::uint64_t try_enter() noexcept {
    auto seen = state_.load(std::memory_order_relaxed);
    if ((seen & (busy | waiting_mask)) != 0) return 0;
    const auto next = seen + sequence_step + busy;
    if (!state_.compare_exchange_strong(seen, next, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      return 0;
    return next / sequence_step;
  }

  /// Hot path.
  void leave() noexcept {
    if ((state_.fetch_and(~busy, std::memory_order_acq_rel) & waiting_mask) != 0) pass_turn();
  }

  /// Blocks until the caller may run something that has no number, and then calls `leave`. Others
  /// that wait may be passed.
  void enter();

  /// The same before the end: the operation that runs, if any, has failed. Also on threads of a
  /// node that has ended. False: the simulation has ended, and there are no turns any more.
  bool enter_to_end() noexcept;

  /// The same, after all that was asked for before.
  void enter_in_order();

  /// Leaves when it ends.
  class turn {
  public:
    explicit turn(work_queue& of) noexcept : of_(of) {}
    ~turn() { of_.leave(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

  private:
    work_queue& of_;
  };

  /// Returns its number. `make` is called with it, and returns what runs. Throws std::system_error
  /// if no thread can be made, std::runtime_error if it is closed, and what `make` throws: then it
  /// was not asked for.
  std::uint64_t push(const std::function<item(std::uint64_t sequence)>& make);

  /// Runs what waits, up to that collective, on the calling thread, unless another one runs: then
  /// that one or the queue's thread runs it soon. Whoever calls it waits for it.
  void run_up_to(std::uint64_t sequence);

  /// What waits begins soon although nobody waits for it.
  void hurry();

  /// The number of the last collective that was asked for.
  std::uint64_t last() const noexcept {
    return state_.load(std::memory_order_relaxed) / sequence_step;
  }

  /// Is the caller the queue's own thread?
  bool is_worker();

  /// Runs what waits, which should fail soon, takes no more, and ends the thread: returns then,
  /// unless it is the caller. Whoever makes a queue closes it.
  void close() noexcept;

private:
  static constexpr std::uint64_t busy = 1;
  static constexpr std::uint64_t waiting_step = 2;  // items, and threads in `enter`
  static constexpr std::uint64_t waiting_mask = 0xfffffe;
  static constexpr std::uint64_t sequence_step = 0x1000000;

  struct entry {
    std::uint64_t sequence;
    item run;
    std::shared_ptr<completion> taker;  // instead of `run`: who waits in `enter_in_order`
  };

  // What the queue's thread does when it runs nothing.
  enum class rest : std::uint8_t { none, looks, sleeps };

  bool try_turn() noexcept;
  void pass_turn() noexcept;
  void take_turn();
  void work();
  bool await_items();
  void run_all();
  void run(entry next);
  void begin_thread();
  bool needs_bell(bool at_once) noexcept;
  void ring() noexcept;
  void block(completion& until);

  const std::shared_ptr<engine> driver_;
  // Whether one runs, how many wait, and the last number, in one word: they change together.
  std::atomic<std::uint64_t> state_{0};

  std::mutex mutex_;
  std::deque<entry> items_;
  std::deque<std::shared_ptr<completion>> turns_;  // of those that wait until none runs
  std::thread thread_;
  std::thread::id worker_;  // that, or the strand of a simulation
  bool runs_ = false;       // there is one
  bool closed_ = false;
  bool at_once_ = false;     // the thread takes what it finds
  bool by_waiters_ = false;  // a thread that waited has run the last item
  rest rest_ = rest::none;
  std::uint64_t pushed_ = 0;  // items, ever
  std::atomic<std::uint32_t> bell_{0};
  std::shared_ptr<completion> ended_;  // in a simulation
};

}  // namespace troupe::groups
