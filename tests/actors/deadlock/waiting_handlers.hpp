#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/deadlock/held_waits.hpp"
#include "troupe/actors/deadlock/queued_call.hpp"
#include "troupe/actors/future/future.hpp"
#include "troupe/actors/scheduler/engine.hpp"

// Handlers that wait, without threads and without a network.
namespace troupe::deadlock {

/// Runs nothing: a run queue that stands still, and a number of threads.
class still_engine final : public engine {
public:
  unsigned threads = 0;
  std::vector<caf::intrusive_ptr<queued_call>> queue;
  mutable int passes = 0;  // over the queue

  transport::sink& as_sink() noexcept override { std::terminate(); }
  void start(transport::transport&) override {}
  void end_waits() override {}
  void stop(const std::function<void(caf::resumable*)>&) override {}
  void attach(caf::actor_system&) override {}
  void push(caf::resumable*) override {}
  void push_urgent(caf::resumable*) override {}
  bool push_if_open(caf::resumable*) override { return false; }
  bool run_if_open(const std::function<void()>&) override { return false; }
  bool wait(completion&, clock::time_point) override { return false; }
  bool block_until(completion&, clock::time_point) override { return false; }
  void deliver_locally(transport::incoming_message&&) override {}
  void set_timer(clock::time_point) override {}
  void wake_network() override {}
  void finish(completion& what) override { what.complete(); }
  bool may_run_inline(const engine_unit&) const noexcept override { return false; }
  thread_counts count() const override { return {}; }
  bool quiet() const noexcept override { return true; }
  bool is_own_thread() const noexcept override { return false; }
  unsigned most_handlers() const noexcept override { return threads; }
  bool any_queued(const std::function<bool(caf::resumable&)>& is) const override {
    ++passes;
    return std::any_of(queue.begin(), queue.end(), [&](const auto& job) { return is(*job); });
  }

private:
  void begin_handler(engine_unit&) override {}
  void end_handler(engine_unit&) override {}
  void foreign_run_begins() noexcept override {}
  void foreign_run_ends() noexcept override {}
};

/// Does nothing when it is run.
class idle_call final : public queued_call {
public:
  using queued_call::queued_call;
  resume_result resume(caf::execution_unit*, std::size_t) override { return done; }
};

inline std::unique_ptr<peer> make_peer(const incarnation& who) {
  return std::make_unique<peer>(worker_info{"node" + std::to_string(who.rank), who.rank},
                                who.number, caf::node_id{});
}

using int_state = detail::future_state<int>;

/// A handler of this thread, which answers a call and waits for an answer.
class handler {
public:
  handler(held_waits& in, const peer& caller, std::uint64_t call, const question& waits_for)
      : answer(std::make_shared<int_state>(nullptr)),
        runs_(caller, call, "f"),
        held_(&in, answer, waits_for) {}

  bool failed() const {
    if (!answer->failure()) return false;
    try {
      std::rethrow_exception(answer->failure());
    } catch (const deadlock_error&) {
      return true;
    }
  }

  const std::shared_ptr<int_state> answer;

private:
  const running_call runs_;
  const held_waits::scope held_;
};

/// The latest ends first.
class handlers {
public:
  ~handlers() {
    while (!all_.empty()) all_.pop_back();
  }
  template <class... Ts>
  handler& add(Ts&&... xs) {
    return *all_.emplace_back(std::make_unique<handler>(std::forward<Ts>(xs)...));
  }
  std::size_t failed() const {
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [](const auto& one) { return one->failed(); }));
  }

private:
  std::vector<std::unique_ptr<handler>> all_;
};

inline constexpr incarnation here{0, 5};
inline constexpr incarnation there{1, 7};
inline constexpr incarnation there_before{1, 6};

}  // namespace troupe::deadlock
