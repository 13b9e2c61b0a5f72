#include <sched.h>

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/permitted.hpp"

namespace troupe::transport::ucx {

namespace {

// A caller that polls without sleeping checks the processes of its peers once in so many polls:
// every 15 us or more, at a hundredth of the cost.
constexpr unsigned polls_per_look = 1024;

// And polls the common worker once in so many, unless it had something within so many of its own
// polls.
constexpr unsigned polls_per_common_look = 16;
constexpr unsigned common_looks_after_use = 4096;

// How long the sends to a peer that is closed may take: the peer may hang.
constexpr std::chrono::seconds longest_close{1};

}  // namespace

// The hot path: UCX, then the sink; all else is behind a flag. Flags that other threads set are
// hints: the lock of what they announce publishes it, and relaxed would do.
unsigned backend::progress() {
  unsigned n = 0;
  if (any_orders_.load(std::memory_order_acquire)) n += carry_out_orders();
  events_ = 0;
  n += poll_workers();
  n += events_;
  if (!leave_notices_.empty()) n += take_leave_notices();
  if (!updated_.empty()) n += process_updates();
  if (++polls_ % polls_per_look == 0 || look_) {
    n += look_at_processes();
    owing_much_ = true;
  }
  if (owing_much_) n += acknowledge();
  if (!ready_.empty()) n += deliver();
  n += sends_.release();
  if (any_troubles_.load(std::memory_order_acquire)) n += attend_to_troubles();
  if (!suspects_.empty()) n += attend_to_suspects();
  if (!unlinked_.empty() || alarm_set_) n += attend_to_links();
  if (!closing_.empty() || any_closes_ || !retiring_.empty()) n += finish_closing();
  return n;
}

// The common worker rarely has something once peers have switched to their own, and polling it
// costs as much.
unsigned backend::poll_workers() {
  unsigned n = 0;
  if (peer_receive_workers_.empty() || common_looks_ > 0 || polls_ % polls_per_common_look == 0) {
    n = common_->progress();
    if (n > 0)
      common_looks_ = common_looks_after_use;
    else if (common_looks_ > 0)
      --common_looks_;
  }
  for (receive_worker* q : peer_receive_workers_) n += q->progress();
  return n;
}

bool backend::something_to_do() const {
  // What other threads add after this look comes with a wake, see `arm`.
  return any_orders_.load(std::memory_order_acquire) ||
         any_troubles_.load(std::memory_order_acquire) || !ready_.empty() || !updated_.empty() ||
         !leave_notices_.empty() || look_;
}

// Where all goes through shared memory and nothing is under way, what is left alone stays armed.
// Otherwise, or when a sleep has ended for no reason that is known, UCX itself may have something
// to do in any worker: timers, connections, sends that wait for room.
bool backend::arm_workers() {
  const auto touched = [](const receive_worker* q) { return q->touched(); };
  const bool all = arm_all_.exchange(false) || uses_network(options_) || !sends_.idle() ||
                   !closes_.empty() ||
                   !(common_->touched() || std::ranges::any_of(peer_receive_workers_, touched));
  // It may not have been polled lately, see `poll_workers`.
  const bool missed = !all && !common_->touched() && common_->progress() > 0;
  if (missed || ((all || common_->touched()) && !common_->arm())) {
    common_looks_ = common_looks_after_use;
    if (all) arm_all_ = true;
    return false;
  }
  for (receive_worker* q : peer_receive_workers_) {
    if (!(all || q->touched()) || q->arm()) continue;
    if (all) arm_all_ = true;
    return false;
  }
  return true;
}

bool backend::arm() {
  if (something_to_do()) return false;
  if (!owing_.empty()) acknowledge();
  if (!(unlinked_.empty() && closing_.empty() && suspects_.empty()) && !set_alarm()) return false;
  if (!arm_workers() || something_to_do()) return false;
  // Orders and troubles from other threads come with a wake, which the worker remembers.
  if (!watch_.ended().empty()) {
    look_ = true;
    return false;
  }
  return true;
}

unsigned backend::look_at_processes() {
  look_ = false;
  const auto ended = watch_.ended();
  for (void* who : ended) {
    watch_.remove(who);
    trouble_with(*static_cast<peer*>(who), {loss_kind::ended, "its process has ended"});
  }
  return static_cast<unsigned>(ended.size());
}

unsigned backend::deliver() {
  const auto n = ready_.size();
  for (auto& message : ready_) sink_.on_message(std::move(message));
  ready_.clear();
  messages_received_.store(messages_received_.load(std::memory_order_relaxed) + n,
                           std::memory_order_relaxed);
  return static_cast<unsigned>(n);
}

unsigned backend::carry_out_orders() {
  std::vector<order> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
    // Under the lock under which it is set: it is true while there are some.
    any_orders_.store(false, std::memory_order_release);
  }
  for (const order& o : orders) {
    peer& p = *o.about;
    if (o.add) {
      admit(p);
      continue;
    }
    if (p.status.load() == peer::state::gone) continue;  // lost meanwhile, and closed
    silence(p);
    if (!o.force) {
      closing_.push_back({&p, link::clock::now() + longest_close});
      continue;
    }
    send_leave_notice(p);
    close_endpoint(p, true);
  }
  return static_cast<unsigned>(orders.size());
}

// Starts delivery from a peer that was added.
void backend::admit(peer& p) {
  if (p.rank >= connections_.size()) connections_.resize(p.rank + 1);
  const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                               [&](const auto& c) { return c->rank == p.rank && c->id == p.id; });
  std::shared_ptr<connection> c;
  if (at != waiting_.end()) {
    c = *at;
    waiting_.erase(at);
  } else {
    c = std::make_shared<connection>(p.rank, p.id, token(options_.key, p.id, id_));
  }
  connections_[p.rank] = c;
  c->added = true;
  c->back = &p;
  c->network = c->wants_acknowledgements || p.net;
  p.admitted = true;
  if (p.own_worker) peer_receive_workers_.push_back(p.own_worker.get());
  if (c->worker_address_complete) mark_updated(c);
  if (c->network) mark_updated(c);
  if (c->wants_acknowledgements) arrived(c, 0);
  for (auto& message : c->held) ready_.push_back(std::move(message));
  c->held.clear();
  if (c->over) trouble_with(c, c->why);
}

// Nothing more of `p` is delivered; what it says about the connection still counts.
void backend::silence(const peer& p) {
  auto* const c = connection_from(p);
  if (!c) return;
  c->over = true;
  std::erase_if(ready_, [&](const incoming_message& m) { return m.from == p.rank; });
}

void backend::forget(const peer& p) {
  if (!connection_from(p)) return;
  connections_[p.rank]->over = true;
  connections_[p.rank].reset();
}

connection* backend::connection_from(const peer& p) const noexcept {
  if (p.rank >= connections_.size()) return nullptr;
  auto* const c = connections_[p.rank].get();
  return c && c->id == p.id ? c : nullptr;
}

unsigned backend::attend_to_troubles() {
  std::vector<trouble> troubles;
  {
    const std::lock_guard lock(trouble_mutex_);
    troubles.swap(troubles_);
    // As in `carry_out_orders`.
    any_troubles_.store(false, std::memory_order_release);
  }
  for (trouble& t : troubles) {
    peer* p = t.about;
    if (t.from) {
      if (!t.from->added) {
        t.from->why = t.why;  // reported when it is added
        continue;
      }
      p = peers_.find(t.from->rank);
      if (!p || p->id != t.from->id) continue;
    }
    if (!p->admitted && p->status.load() != peer::state::gone) {
      // Another thread is still adding it: look again later.
      const std::lock_guard lock(trouble_mutex_);
      troubles_.push_back(std::move(t));
      any_troubles_.store(true, std::memory_order_release);
      continue;
    }
    if (t.number) {
      if (*t.number == p->net->number.load()) out_of_reach(*p, t.why);
      continue;
    }
    if (t.ucx && p->same_host && !p->net && p->status.load() == peer::state::live) {
      suspect(*p, t.why);
      continue;
    }
    if (t.why.kind != loss_kind::broken && p->status.load() == peer::state::live)
      take_what_is_left(*p);
    lose(*p, t.why);
  }
  return static_cast<unsigned>(troubles.size());
}

void backend::lose(peer& p, const peer_loss& why) {
  p.set_reason(why.text);
  const auto before = p.status.exchange(peer::state::gone);
  if (before == peer::state::gone) return;
  silence(p);
  std::erase_if(closing_, [&](const closing& one) { return one.whom == &p; });
  std::erase_if(suspects_, [&](const suspicion& one) { return one.whom == &p; });
  send_leave_notice(p);  // it may be alive and not know that it is lost
  close_endpoint(p, true);
  if (before == peer::state::live) sink_.on_peer_lost(p.rank, why);
}

unsigned backend::finish_closing() {
  unsigned n = 0;
  std::erase_if(closing_, [&](const closing& one) {
    peer& p = *one.whom;
    // Pairs with the release in `pending_sends::unlink`: at 0 UCX has let go of the sends.
    const bool busy =
        p.pending.load(std::memory_order_acquire) > 0 || (p.net && p.net->now != link::phase::up);
    if (busy && link::clock::now() < one.until) return false;
    send_leave_notice(p);
    close_endpoint(p, busy);
    ++n;
    return true;
  });
  if (any_closes_) closes_done();
  if (!retiring_.empty() && closes_.empty()) retire_receive_workers();
  return n;
}

// Pre: no thread can enter any more (`status`), or none is left that could.
void backend::close_endpoint(peer& p, bool force) {
  p.status.store(peer::state::gone);
  watch_.remove(&p);
  if (auto* const c = connection_from(p)) c->over = true;
  if (p.own_worker) read_what_is_there(*p.own_worker, p.shape);
  // Nobody else's is read when all end: it may be of one that was never added, and has no endpoint.
  if (p.shared && !ending_) read_what_is_there(*common_, common_shape);
  forget(p);
  // A thread that enters from now on sees that the peer is gone (see `peer::gate`); others leave
  // soon.
  while (p.gate.load() % peer::one_message != 0) sched_yield();
  release_endpoint(p, force);
  if (p.own_worker) retiring_.push_back(&p);
  if (p.net) p.net->unacknowledged.clear();
}

// Pre: no other thread uses the endpoint.
void backend::release_endpoint(peer& p, bool force) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  for (const ucp_ep_h ep : {p.ep.exchange(nullptr), std::exchange(p.first_ep, nullptr),
                            std::exchange(p.next_ep, nullptr)}) {
    if (!ep) continue;
    const auto request = ucp_ep_close_nbx(ep, &param);
    if (request && !UCS_PTR_IS_ERR(request)) {
      closes_.push_back(request);
      any_closes_ = true;
    }
  }
}

bool backend::closes_done() {
  std::erase_if(closes_, [](ucs_status_ptr_t request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
  any_closes_ = !closes_.empty();
  return closes_.empty();
}

}  // namespace troupe::transport::ucx
