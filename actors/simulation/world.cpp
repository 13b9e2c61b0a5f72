#include "troupe/actors/simulation/world.hpp"

#include <algorithm>

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

// The strand of the calling thread.
thread_local void* current = nullptr;

}  // namespace

world::world(const options& how, std::shared_ptr<transport::virtual_network> network)
    : options_(how),
      network_(std::move(network)),
      random_(how.seed ^ 0x776f726c64),
      now_(network_->now()),
      end_(now_ + how.limit) {
  network_->on_ready = [this](transport::rank_t rank) {
    const auto place = by_rank_.find(rank);
    if (place == by_rank_.end()) return;
    place->second->network_ready_ = true;
    activate(*place->second);
  };
  current = &main_;
  detail::virtual_now = &now_;
  self = {};
  self.place = this;
}

world::~world() { end(); }

void world::end() {
  if (std::exchange(ending_, true)) return;
  while (!blocked_.empty() || !starting_.empty()) {
    completion nothing;
    block(nothing, now_ + std::chrono::microseconds(1), nullptr);
  }
  for (auto& one : strands_) one->baton.release();
  for (auto& one : strands_) one->thread.join();
  network_->on_ready = nullptr;
  current = nullptr;
  detail::virtual_now = nullptr;
  self = {};
}

void world::hang(transport::rank_t rank, std::chrono::nanoseconds time) {
  if (const auto place = by_rank_.find(rank); place != by_rank_.end())
    pause(*place->second, now_ + time);
}

void world::slow(transport::rank_t rank, double times) {
  if (const auto place = by_rank_.find(rank); place != by_rank_.end())
    place->second->slowness_ = times;
}

void world::spawn(std::function<void()> body) { starting_.push_back(std::move(body)); }

// ---- The baton

void world::baton::release() noexcept {
  held_.store(1, std::memory_order_release);  // the next holder sees all that this one has done
  futex_wake(held_, 1);
}

void world::baton::acquire() noexcept {
  while (held_.exchange(0, std::memory_order_acquire) == 0) futex_wait(held_, 0);
}

world::strand& world::idle_strand() {
  if (!idle_.empty()) {
    auto* one = idle_.back();
    idle_.pop_back();
    return *one;
  }
  strands_.push_back(std::make_unique<strand>());
  auto& made = *strands_.back();
  made.thread = std::thread([this, &made] { thread_main(made); });
  return made;
}

void world::thread_main(strand& me) {
  current = &me;
  detail::virtual_now = &now_;
  self.place = this;
  me.baton.acquire();
  while (!(ending_ && blocked_.empty() && starting_.empty())) step(me);
}

void world::give_to(strand& next, strand& me) {
  next.baton.release();
  me.baton.acquire();
}

bool world::block(completion& what, clock::time_point deadline, simulated_node* in) {
  if (what.ready()) return true;
  auto& me = *static_cast<strand*>(current);
  actor_system_host::let_go_of_logger();  // its system could not end without this thread
  blocked_.push_back({&me, &what, deadline, in});
  give_to(idle_strand(), me);
  // The strand that chose this one has taken it out of the list.
  if (what.ready()) return true;
  if (&me == &main_ && std::exchange(deadlock_, false))
    throw deadlock_error(
        "the simulation stands still: nothing can happen any "
        "more within its limit, and " +
        std::to_string(blocked_.size() + 1) + " threads wait");
  if (ending_ && &me != &main_ && !in && now_ < deadline)
    throw not_initialized("the simulation has ended");
  return false;
}

// ---- Steps

bool world::may_resume(const blocked& one) const {
  if (one.in && one.in->paused_until_ > now_) return false;
  return one.what->ready() || one.deadline <= now_ || (one.in && one.in->waits_ended()) ||
         (ending_ && one.who != &main_);
}

// Does one thing of those that can happen now, chosen by the seed; if there is none, time passes.
void world::step(strand& me) {
  ++steps_;
  std::vector<std::size_t> resumable;
  for (std::size_t i = 0; i < blocked_.size(); ++i)
    if (may_resume(blocked_[i])) resumable.push_back(i);
  const auto choices = resumable.size() + starting_.size() + active_.size();
  if (choices == 0) {
    if (!pass_time()) report_deadlock(me);
    return;
  }
  auto choice = static_cast<std::size_t>(random_.next() % choices);
  if (choice < resumable.size()) {
    auto* next = blocked_[resumable[choice]].who;
    blocked_.erase(blocked_.begin() + static_cast<long>(resumable[choice]));
    idle_.push_back(&me);
    give_to(*next, me);
    return;
  }
  choice -= resumable.size();
  if (choice < starting_.size()) {
    const auto body = std::move(starting_[choice]);
    starting_.erase(starting_.begin() + static_cast<long>(choice));
    body();
    actor_system_host::let_go_of_logger();
    return;
  }
  auto& one = *active_[choice - starting_.size()];
  active_.erase(active_.begin() + static_cast<long>(choice - starting_.size()));
  one.active_ = false;
  if (one.paused_until_ > now_ || !one.has_work()) return;  // a pause ends with a timer
  const auto busy = service_of(one);
  const auto id = one.id_;
  if (busy.count() > 0) pause(one, now_ + busy);
  one.turn();
  // The turn may have ended the node.
  if (const auto place = by_id_.find(id); place != by_id_.end() && place->second->has_work())
    activate(*place->second);
}

clock::duration world::service_of(const simulated_node& one) {
  const auto time = random_.up_to(options_.service);
  return std::chrono::duration_cast<clock::duration>(time * one.slowness_);
}

// False: there is nothing to wait for.
bool world::pass_time() {
  auto next = network_->next();
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  for (const auto& one : blocked_) {
    auto when = one.deadline;
    if (one.in) when = std::max(when, one.in->paused_until_);
    next = std::min(next, when);
  }
  if (next == never || next > end_) return false;
  now_ = std::max(now_, next);
  network_->advance(now_);
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    const auto id = timers_.begin()->second;
    timers_.erase(timers_.begin());
    activate(*by_id_.at(id));
  }
  return true;
}

void world::report_deadlock(strand& me) {
  const auto place = std::find_if(blocked_.begin(), blocked_.end(),
                                  [&](const blocked& one) { return one.who == &main_; });
  if (place == blocked_.end()) return;
  deadlock_ = true;
  blocked_.erase(place);
  idle_.push_back(&me);
  give_to(main_, me);
}

// ---- Engines

void world::enter(simulated_node& one) {
  one.id_ = ++last_id_;
  by_id_[one.id_] = &one;
  by_rank_[one.rank_] = &one;
  one.network_ready_ = true;  // it may have messages already
  activate(one);
}

void world::leave(simulated_node& one) {
  if (by_id_.erase(one.id_) == 0) return;
  std::erase_if(timers_, [&](const auto& timer) { return timer.second == one.id_; });
  std::erase(active_, &one);
  one.active_ = false;
  if (const auto place = by_rank_.find(one.rank_); place != by_rank_.end() && place->second == &one)
    by_rank_.erase(place);
}

void world::activate(simulated_node& one) {
  if (one.active_ || !by_id_.contains(one.id_) || one.paused_until_ > now_) return;
  one.active_ = true;
  active_.push_back(&one);
}

void world::set_timer(simulated_node& one, clock::time_point when) {
  one.timer_ = when;
  if (when != never && by_id_.contains(one.id_)) timers_.emplace(when, one.id_);
}

void world::pause(simulated_node& one, clock::time_point until) {
  one.paused_until_ = std::max(one.paused_until_, until);
  timers_.emplace(one.paused_until_, one.id_);
}

}  // namespace troupe
