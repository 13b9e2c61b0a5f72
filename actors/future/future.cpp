#include "troupe/actors/future/future.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/deadlock/deadlock_search.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"

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

// Jobs that the calling thread runs or drops itself, one after the other: each may make the next
// one due, and a long chain of them would not fit on the stack.
class here_and_now {
public:
  static void run(caf::resumable* job) { add({job, true}); }
  static void drop(caf::resumable* job) { add({job, false}); }

private:
  struct item {
    caf::resumable* job;
    bool run;
  };

  // What the thread keeps has no destructor: promises of static storage are dropped after those of
  // the thread's own variables have run. Allocates only for jobs that come while another one runs.
  static void add(item next) {
    static thread_local constinit std::vector<item>* later = nullptr;
    if (later) return later->push_back(next);
    std::vector<item> come, now{};
    later = &come;
    const on_exit done([] { later = nullptr; });
    finish(next);
    while (!come.empty()) {
      now.swap(come);
      for (const auto& one : now) finish(one);
      now.clear();
    }
  }

  static void finish(const item& one) {
    if (one.run) one.job->resume(nullptr, 1);
    intrusive_ptr_release(one.job);
  }
};

// Does this thread run that actor of the engine's node, perhaps below others?
bool runs_here(const engine* driver, std::uint64_t actor) noexcept {
  const auto* const node = current_node();
  return node && node->driver().get() == driver && engine::runs_actor(*node, actor);
}

// Of a handler.
constexpr auto long_wait = std::chrono::milliseconds(20);

}  // namespace

future_core::link future_core::closed{nullptr, nullptr, nullptr};

future_core::~future_core() {
  auto* next = next_.load();
  if (next == &closed) return;
  while (next) {  // never completed, so nobody ran them
    const std::unique_ptr<link> mine(next);
    here_and_now::drop(mine->job);
    next = mine->next;
  }
}

bool future_core::wait_until(clock::time_point deadline,
                             const std::shared_ptr<future_core>& shared) {
  if (ready()) return true;
  forked::check();
  if (answerer_ != 0 && runs_here(engine_.get(), answerer_))
    throw deadlock_error("an actor waits for its own answer, which it can only give afterwards");
  if (engine_ && self.owner == engine_.get()) {
    if (engine_->wait(done_, std::min(deadline, clock::now() + long_wait))) return true;
    awaited_for_long(true);
    const on_exit ceases([this] { awaited_for_long(false); });
    // Who has a limit of its own will go on, whatever it waits for.
    auto* const node = current_node();
    const auto what = asked();
    const bool stays = deadline == never && (what.request != 0 || asks_on()) && node &&
                       node->driver() == engine_ && !engine_->simulated();
    const deadlock::held_waits::scope held(stays ? &node->actors().deadlocks().waits() : nullptr,
                                           shared, what);
    return engine_->wait(done_, deadline);
  }
  if (engine_) return engine_->wait(done_, deadline);
  return engine::wait_without_network(done_, deadline);
}

deadlock::question future_core::asked() const noexcept {
  auto* const node = current_node();
  if (answerer_ == 0 || !node) return {};
  const auto& self = node->actors().out().self();
  const deadlock::incarnation here{self.rank, self.incarnation};
  return {here, here, reinterpret_cast<std::uintptr_t>(this), answerer_};
}

deadlock::question future_core::asks_now() const noexcept { return asked(); }

// Hot path: no lock.
void future_core::publish() {
  if (engine_)
    engine_->finish(done_);
  else
    done_.complete();
  run_all(next_.exchange(&closed, std::memory_order_acq_rel));
}

// A list, last in first.
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
  if (forked::from_nodes()) return;  // what comes next is the parent's
  if (!one.at_once) return run_on(engine_.get(), one.job);
  one.job->resume(nullptr, 1);
  intrusive_ptr_release(one.job);
}

void future_core::when_ready(caf::resumable* next, const std::atomic<void*>* who) {
  add(std::make_unique<link>(link{next, who, nullptr, false}));
}

void future_core::when_ready_at_once(caf::resumable* next) {
  add(std::make_unique<link>(link{next, nullptr, nullptr, true}));
}

void future_core::add(std::unique_ptr<link> mine) {
  mine->next = next_.load(std::memory_order_acquire);
  while (mine->next != &closed) {
    if (next_.compare_exchange_weak(mine->next, mine.get(), std::memory_order_acq_rel)) {
      (void)mine.release();
      return;
    }
  }
  run(*mine);
}

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

// Takes the list out, drops those for whom nobody waits, and puts it back below what has come
// meanwhile. One that is abandoned this moment is left to the next time.
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
    dead.push_back(gone->job);
  }
  link* expected = nullptr;
  while (all && !next_.compare_exchange_strong(expected, all, std::memory_order_acq_rel)) {
    if (expected == &closed) {
      run_all(all);
      break;
    }
    auto* newer = expected;
    expected = nullptr;
    if (!next_.compare_exchange_strong(newer, nullptr, std::memory_order_acq_rel)) continue;
    auto* last = newer;
    while (last->next) last = last->next;
    last->next = std::exchange(all, newer);
  }
  for (auto* job : dead) here_and_now::drop(job);
}

void future_core::run_on(engine* driver, caf::resumable* job) {
  if (forked::from_nodes()) return;
  if (driver && driver->push_if_open(job)) return;
  here_and_now::run(job);
}

caf::resumable* make_continuation(std::function<void()> body) {
  const auto context = current_context();
  const bool apart = works_apart();
  return make_work_item([body = std::move(body), context, apart](caf::execution_unit*) {
    const call_context_scope here({current_active_call(), context, apart});
    body();
  });
}

}  // namespace troupe::detail
