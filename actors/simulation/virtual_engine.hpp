#pragma once

#include <deque>

#include "troupe/actors/simulation/world.hpp"

namespace troupe {

/// The engine of a node in a simulation: the world gives it turns. It has no threads of its own and
/// no locks: the thread that has the world's baton uses it.
class virtual_engine final : public engine, private simulated_node, private transport::sink {
public:
  virtual_engine(dispatcher& client, std::shared_ptr<world> in, transport::rank_t rank);
  ~virtual_engine() override;

  transport::sink& as_sink() noexcept override { return *this; }
  void start(transport::transport& net) override;
  void end_waits() override;
  void stop(const std::function<void(caf::resumable*)>& drop) override;
  void attach(caf::actor_system& system) override;
  void push(caf::resumable* item) override;
  void push_urgent(caf::resumable* item) override;
  bool push_if_open(caf::resumable* item) override;
  bool run_if_open(const std::function<void()>& body) override;
  bool wait(completion& what, clock::time_point deadline) override;
  bool block_until(completion& what, clock::time_point deadline) override;
  void deliver_locally(transport::incoming_message&& message) override;
  void set_timer(clock::time_point when) override;
  void wake_network() override {}
  void finish(completion& what) override { what.complete(); }
  bool may_run_inline(const engine_unit&) const noexcept override { return false; }
  thread_counts count() const override { return {0, 0, !has_items()}; }
  bool quiet() const noexcept override;
  bool is_own_thread() const noexcept override;
  bool simulated() const noexcept override { return true; }
  void wait_until_empty(const gate& what) override;
  void lock(std::mutex& what) override;
  bool run_aside(std::function<void()> body) override;

private:
  // transport::sink
  void on_message(transport::incoming_message&& message) override;
  void on_peer_lost(transport::rank_t peer, transport::peer_loss why) override;

  // simulated_node
  bool has_work() const override;
  void turn() override;
  bool waits_ended() const noexcept override { return waits_ended_; }

  void begin_handler(engine_unit&) override {}
  void end_handler(engine_unit&) override {}
  void foreign_run_begins() noexcept override { ++running_; }
  void foreign_run_ends() noexcept override { --running_; }

  template <class Done>
  void wait_until(const Done& done);
  bool has_items() const noexcept { return !queue_.empty() || !urgent_.empty(); }
  caf::resumable* take_item(std::size_t choices);
  void poll();
  void run(caf::resumable* item);

  dispatcher& client_;
  const std::shared_ptr<world> in_;
  world& world_;
  transport::transport* net_ = nullptr;
  engine_unit unit_;
  std::deque<caf::resumable*> queue_;
  std::deque<caf::resumable*> urgent_;
  std::deque<transport::incoming_message> inbox_;
  std::deque<transport::incoming_message> local_;
  std::deque<std::pair<transport::rank_t, transport::peer_loss>> lost_;
  int running_ = 0;  // handlers, including those that block
  int waiting_ = 0;  // threads in `wait` and `block_until`
  bool waits_ended_ = false;
  bool stopped_ = false;
};

}  // namespace troupe
