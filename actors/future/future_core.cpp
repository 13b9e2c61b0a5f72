#include "troupe/actors/future/future_core.hpp"

#include <algorithm>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/actors/future/wait_observer.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/node_context.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::detail {

namespace {

template <class F>
class on_exit {
public:
  explicit on_exit(F f) : f_(std::move(f)) {}
  ~on_exit() { f_(); }
  on_exit(const on_exit&) = delete;
  on_exit& operator=(const on_exit&) = delete;

private:
  F f_;
};

// Runs or drops work items on the calling thread, one after the other: each may make the next one
// due, and a long chain of nested calls would not fit on the stack (a trampoline, as folly's
// QueuedImmediateExecutor).
class inline_executor {
public:
  static void run(caf::resumable* item) { add({item, true}); }
  static void drop(caf::resumable* item) { add({item, false}); }

  // By an item that is about to wait: for what a later one does perhaps, which may itself wait for
  // this one. So another thread takes the later ones. If there is none to be had, they wait; so
  // they do in a simulation, whose threads run one at a time.
  static void hand_over_later_ones(clock::time_point deadline) {
    if (!later || later->empty()) return;  // nearly always
    if (clock::now() >= deadline || (self.owner && self.owner->simulated())) return;
    const auto rest = std::make_shared<queue>(std::exchange(*later, {}));
    try {
      std::thread([rest] { work_off(*rest); }).detach();
    } catch (const std::system_error&) {
      *later = std::move(*rest);
    }
  }

private:
  struct entry {
    caf::resumable* item;
    bool run;
  };

  // First in, first out. Its memory is used again.
  class queue {
  public:
    bool empty() const noexcept { return next_ == all_.size(); }
    void put(const entry& one) { all_.push_back(one); }
    entry take() {
      const auto one = all_[next_++];
      if (2 * next_ > all_.size()) {
        all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(next_));
        next_ = 0;
      }
      return one;
    }

  private:
    std::vector<entry> all_;
    std::size_t next_ = 0;
  };

  // What the thread keeps has no destructor: promises of static storage are dropped after the
  // thread's own variables have been destroyed. Allocates only for items that come while another
  // one runs.
  static void add(entry next) {
    if (later) return later->put(next);
    queue mine;
    work_off(mine, &next);
  }

  static void work_off(queue& mine, const entry* first = nullptr) {
    later = &mine;
    const on_exit done([] { later = nullptr; });
    if (first) finish(*first);
    while (!mine.empty()) finish(mine.take());
  }

  static void finish(const entry& one) {
    if (one.run) one.item->resume(nullptr, 1);
    intrusive_ptr_release(one.item);
  }

  static thread_local constinit queue* later;
};

thread_local constinit inline_executor::queue* inline_executor::later = nullptr;

// Is that actor of the engine's node at work on this thread, perhaps below other work?
bool runs_here(const engine* driver, std::uint64_t actor) noexcept {
  const auto* const node = current_node_context();
  return node && node->driver().get() == driver && engine::runs_actor(*node, actor);
}

// The wait of a handler is worth observing after so long.
constexpr auto long_wait = std::chrono::milliseconds(20);

}  // namespace

future_core::link future_core::closed{nullptr, nullptr, nullptr};

future_core::~future_core() {
  auto* next = next_.load();
  if (next == &closed) return;
  while (next) {  // it was never completed, so they have not run
    const std::unique_ptr<link> mine(next);
    inline_executor::drop(mine->item);
    next = mine->next;
  }
}

bool future_core::wait_until(clock::time_point deadline,
                             const std::shared_ptr<future_core>& shared) {
  if (ready()) return true;
  forked::check();
  if (answerer_ != 0 && runs_here(engine_.get(), answerer_))
    throw deadlock_error("an actor waits for its own answer, which it can only give afterwards");
  inline_executor::hand_over_later_ones(deadline);
  wanted(&deadline);
  if (engine_ && self.owner == engine_.get()) {
    if (engine_->wait(done_, std::min(deadline, clock::now() + long_wait))) return true;
    awaited_for_long(true);
    const on_exit ceases([this] { awaited_for_long(false); });
    const auto wait = [&] { return engine_->wait(done_, deadline); };
    // A wait with a limit of its own ends anyway.
    auto* const node = current_node_context();
    const auto what = asked();
    const bool may_be_stuck = deadline == never && (what.request != 0 || asks_on()) && node &&
                              node->driver() == engine_ && !engine_->simulated();
    return may_be_stuck ? node->waits().observe(shared, what, wait) : wait();
  }
  if (engine_) return engine_->wait(done_, deadline);
  return engine::wait_without_network(done_, deadline);
}

question future_core::asked() const noexcept {
  auto* const node = current_node_context();
  if (answerer_ == 0 || !node) return {};
  const auto& here = node->waits().self();
  return {here, here, reinterpret_cast<std::uintptr_t>(this), answerer_};
}

question future_core::asks_now() const noexcept { return asked(); }

// Hot path: no lock. The outcome is stored before: `finish` releases it to those that wait, and the
// exchange to those that find the list closed. The exchange also acquires the entries of the list.
void future_core::publish() {
  if (engine_)
    engine_->finish(done_);
  else
    done_.complete();
  run_all(next_.exchange(&closed, std::memory_order_acq_rel));
}

// `last` is a list, the latest entry first.
void future_core::run_all(link* last) {
  link* first = nullptr;
  while (last) {  // in the order in which they came
    auto* before = std::exchange(last->next, first);
    first = std::exchange(last, before);
  }
  while (first) {
    const std::unique_ptr<link> mine(first);
    first = mine->next;
    run(*mine);
  }
}

void future_core::run(const link& one) const {
  if (forked::from_nodes()) return;  // what comes next is the parent's business
  if (!one.at_once) return run_on(engine_.get(), one.item);
  one.item->resume(nullptr, 1);
  intrusive_ptr_release(one.item);
}

// What is added may drop the last reference to this at once: nothing is done after it.
void future_core::when_ready(caf::resumable* next, const std::atomic<void*>* who) {
  wanted(nullptr);
  add(std::make_unique<link>(link{next, who, nullptr, false}));
}

void future_core::when_ready_at_once(caf::resumable* next) {
  wanted(nullptr);
  add(std::make_unique<link>(link{next, nullptr, nullptr, true}));
}

void future_core::add(std::unique_ptr<link> mine) {
  // Release: `publish` and `prune` acquire the entry. Acquire, also of an exchange that fails: with
  // `closed` comes the outcome, which `run` needs.
  mine->next = next_.load(std::memory_order_acquire);
  while (mine->next != &closed) {
    if (next_.compare_exchange_weak(mine->next, mine.get(), std::memory_order_acq_rel)) {
      (void)mine.release();
      return;
    }
  }
  run(*mine);
}

void future_core::note_devices(device_work&& made) {
  if (stream_scope::here() || !made.streams.empty()) devices_ = reached_here(std::move(made));
}

void future_core::block_on_devices() const { devices_->block_current(); }

bool future_core::set_exception(std::exception_ptr why) {
  if (!claim()) return false;
  failure_ = std::move(why);
  publish();
  return true;
}

bool future_core::give_up(fault&& why) {
  if (!claim(claimant::canceller)) return false;
  why.code = errc::cancelled;
  failure_ = to_exception(std::move(why));
  publish();
  return true;
}

void future_core::cancel() {
  fault why;
  why.text = "the future was cancelled";
  give_up(std::move(why));
}

void future_core::abandoned() {
  constexpr unsigned many = 32;
  if (abandoned_.fetch_add(1) % many == many - 1) prune();
}

// Takes the list out, drops the items that are not wanted any more, and puts the rest back below
// what has come meanwhile. One that is abandoned at this moment is left to the next time. The
// exchanges acquire the entries of others, and with `closed` the outcome; they release to `publish`
// the entries that are put back.
void future_core::prune() {
  auto* all = next_.load(std::memory_order_acquire);
  do {
    if (!all || all == &closed) return;
  } while (!next_.compare_exchange_weak(all, nullptr, std::memory_order_acq_rel));
  std::vector<caf::resumable*> dead;
  for (link** at = &all; *at;) {
    if (!(*at)->who || (*at)->who->load()) {
      at = &(*at)->next;
      continue;
    }
    const std::unique_ptr<link> gone(*at);
    *at = gone->next;
    dead.push_back(gone->item);
  }
  // The acquire is for a failure: with `closed` comes the outcome, which `run_all` needs. The
  // release publishes the entries, whose links this thread may have changed.
  link* expected = nullptr;
  while (all && !next_.compare_exchange_strong(expected, all, std::memory_order_acq_rel)) {
    if (expected == &closed) {
      run_all(all);
      break;
    }
    auto* newer = expected;
    expected = nullptr;
    // Acquires the entries that have come meanwhile: other threads have written them.
    if (!next_.compare_exchange_strong(newer, nullptr, std::memory_order_acq_rel)) continue;
    auto* last = newer;
    while (last->next) last = last->next;
    last->next = std::exchange(all, newer);
  }
  for (auto* item : dead) inline_executor::drop(item);
}

void future_core::run_on(engine* driver, caf::resumable* item) {
  if (forked::from_nodes()) return;
  if (driver && driver->push_if_open(item)) return;
  inline_executor::run(item);
}

caf::resumable* make_continuation(std::function<void()> body) {
  const auto context = current_context();
  const bool apart = works_apart();
  return make_work_item([body = std::move(body), context, apart](caf::execution_unit*) {
    const call_context_scope here({current_active_call(), context, apart});
    const stream_scope devices;
    body();
  });
}

}  // namespace troupe::detail
