#include "troupe/actors/simulation/virtual_engine.hpp"

#include <algorithm>

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/actors/scheduler/torch_thread_state.hpp"
#include "troupe/actors/simulation/trace.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

constexpr std::chrono::microseconds longest_service_pause(1'000);

}  // namespace

virtual_engine::virtual_engine(dispatcher& client, std::shared_ptr<world> in,
                               transport::rank_t rank)
    : simulated_node(rank), client_(client), in_(std::move(in)), world_(*in_), unit_(*this) {}

virtual_engine::~virtual_engine() { world_.leave(*this); }

void virtual_engine::start(transport::transport& net) {
  net_ = &net;
  world_.enter(*this);
}

void virtual_engine::attach(caf::actor_system& system) { unit_.attach(system); }

void virtual_engine::on_message(transport::incoming_message&& message) {
  inbox_.push_back(std::move(message));
}

void virtual_engine::on_peer_lost(transport::rank_t peer, transport::peer_loss why) {
  lost_.emplace_back(peer, std::move(why));
}

void virtual_engine::push(caf::resumable* item) {
  queue_.push_back(item);
  world_.activate(*this);
}

void virtual_engine::push_urgent(caf::resumable* item) {
  urgent_.push_back(item);
  world_.activate(*this);
}

bool virtual_engine::push_if_open(caf::resumable* item) {
  if (stopped_) return false;
  push(item);
  return true;
}

bool virtual_engine::run_if_open(const std::function<void()>& body) {
  if (stopped_) return false;
  body();
  return true;
}

void virtual_engine::deliver_locally(transport::incoming_message&& message) {
  local_.push_back(std::move(message));
  world_.activate(*this);
}

void virtual_engine::set_timer(clock::time_point when) {
  if (when < timer()) world_.set_timer(*this, when);
}

bool virtual_engine::wait(completion& what, clock::time_point deadline) {
  if (what.ready()) return true;
  if (self.owner && self.owner != this) return self.owner->block_until(what, deadline);
  if (self.owner || !waits_ended_) block_until(what, deadline);
  return what.ready() || wait_without_network(what, deadline);
}

// When the waits end, this throws in a handler of this node; other threads go on without it.
bool virtual_engine::block_until(completion& what, clock::time_point deadline) {
  ++waiting_;
  const auto handler = self;
  try {
    if (!waits_ended_) world_.block(what, deadline, this);
  } catch (...) {
    --waiting_;
    throw;
  }
  --waiting_;
  if (what.ready() || !waits_ended_ || !handler.owner) return what.ready();
  throw not_initialized("the node has been shut down");
}

// Lets time pass until `done`.
template <class Done>
void virtual_engine::wait_until(const Done& done) {
  for (std::chrono::microseconds pause(1); !done();
       pause = std::min(2 * pause, longest_service_pause)) {
    completion nothing;
    world_.block(nothing, world_.now() + pause, nullptr);
  }
}

void virtual_engine::wait_until_empty(const gate& what) {
  wait_until([&] { return what.empty(); });
}

void virtual_engine::lock(std::mutex& what) {
  if (!what.try_lock()) wait_until([&] { return what.try_lock(); });
}

void virtual_engine::end_waits() {
  waits_ended_ = true;
  wait_until([&] { return waiting_ == 0; });
}

void virtual_engine::stop(const std::function<void(caf::resumable*)>& drop) {
  end_waits();
  world_.leave(*this);
  // Handlers that wait elsewhere, for what no network brings, end first.
  wait_until([&] { return running_ <= (is_own_thread() ? 1 : 0); });
  stopped_ = true;
  while (has_items()) {
    auto* item = take_item(1);
    if (item->subtype() == caf::resumable::function_object)
      run(item);
    else
      drop(item);
  }
  inbox_.clear();
  local_.clear();
  lost_.clear();
}

bool virtual_engine::quiet() const noexcept {
  return running_ == (is_own_thread() ? 1 : 0) && !has_items() && local_.empty() && inbox_.empty();
}

bool virtual_engine::is_own_thread() const noexcept { return self.owner == this; }

bool virtual_engine::run_aside(std::function<void()> body) {
  world_.spawn(std::move(body));
  return true;
}

bool virtual_engine::has_work() const {
  return network_ready() || has_items() || !local_.empty() || !inbox_.empty() || !lost_.empty() ||
         timer() <= world_.now();
}

void virtual_engine::turn() {
  if (timer() <= world_.now()) {
    const auto before = self;
    self = {this, &unit_, this, false};
    world_.set_timer(*this, never);
    set_timer(client_.run_timers(world_.now()));
    self = before;
    return;
  }
  const bool arrivals = network_ready() || !local_.empty() || !inbox_.empty() || !lost_.empty();
  if (has_items() && (!arrivals || world_.random().chance(0.5))) {
    run(take_item(4));  // real threads would take them up in about this order
  } else {
    poll();
  }
}

// One of the first `choices`.
caf::resumable* virtual_engine::take_item(std::size_t choices) {
  auto& from = urgent_.empty() ? queue_ : urgent_;
  const auto near = std::min(from.size(), choices);
  const auto place =
      from.begin() + static_cast<long>(choices > 1 ? world_.random().next() % near : 0);
  auto* item = *place;
  from.erase(place);
  return item;
}

void virtual_engine::poll() {
  const auto before = self;
  const libtorch_untouched here;
  self = {this, &unit_, this, false};
  network_taken();
  net_->progress();
  while (!local_.empty()) {
    inbox_.push_back(std::move(local_.front()));
    local_.pop_front();
  }
  while (!inbox_.empty()) {
    auto message = std::move(inbox_.front());
    inbox_.pop_front();
    if (world_.trace() && !message.envelope.empty())
      world_.trace()(describe_message(world_.now(), rank(), message));
    client_.dispatch(std::move(message), unit_);
  }
  // The last messages of lost peers come first: they may explain the loss.
  while (!lost_.empty()) {
    auto [peer, why] = std::move(lost_.front());
    lost_.pop_front();
    client_.peer_lost(peer, why);
  }
  self = before;
}

void virtual_engine::run(caf::resumable* item) {
  const auto before = self;
  self = {this, &unit_, this, true};
  ++running_;
  client_.prepare_thread();
  const auto left = client_.resume(*item, unit_, 1 + world_.random().next() % 4);
  detail::clear_current_call_context();
  switch (left) {
    case caf::resumable::resume_later: push(item); break;
    case caf::resumable::done:
    case caf::resumable::awaiting_message: intrusive_ptr_release(item); break;
    case caf::resumable::shutdown_execution_unit: break;
  }
  actor_system_host::let_go_of_logger();
  detail::set_current_node(nullptr);
  detail::set_current_actor(0);
  --running_;
  self = before;
}

}  // namespace troupe
