#include "troupe/actors/messaging/flow_control.hpp"

#include <algorithm>
#include <set>

#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

// A handler that has waited for so long sends a probe, and again after twice the time.
constexpr auto first_probe = std::chrono::milliseconds(20);
constexpr auto last_probe = std::chrono::milliseconds(1000);

// Of one grant: more makes no sense.
constexpr std::uint64_t most_messages = std::uint64_t{1} << 32;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 50;

std::int64_t a_quarter(std::uint64_t window) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(window / 4));
}

fault too_much(const peer& to, const flow_window& window) {
  fault why;
  why.code = errc::overloaded;
  why.node = to.info.name;
  why.text = to.info.name + " has not taken up its messages: its window of " +
             std::to_string(window.messages) + " messages and " + std::to_string(window.bytes) +
             " bytes is full";
  return why;
}

}  // namespace

flow_control::flow_control(peer_table& peers, engine& driver, sender& out,
                           const flow_window& window, transport::rank_t self)
    : peers_(peers),
      engine_(driver),
      out_(out),
      window_(window),
      self_(self),
      unlimited_(window.messages == 0 || window.bytes == 0),
      credit_messages_(a_quarter(window.messages)),
      credit_bytes_(a_quarter(window.bytes)),
      reserve_(a_quarter(window.bytes)),
      largest_small_(static_cast<std::int64_t>(std::min<std::uint64_t>(4096, window.bytes / 64))) {}

void flow_control::open(peer& to) noexcept {
  {
    const std::lock_guard lock(mutex_);
    passed_on_.erase(to.rank());  // it counts anew
  }
  to.out.messages.store(window_.messages);
  to.out.bytes.store(static_cast<std::int64_t>(window_.bytes));
  to.out.reserve.store(reserve_);
}

// ---- The sender's half

void flow_control::add(peer& to, std::int64_t messages, std::int64_t bytes) noexcept {
  to.out.messages.fetch_add(messages);
  to.out.bytes.fetch_add(bytes);
  if (const auto now = to.out.reserve.fetch_add(bytes) + bytes; now > reserve_)
    to.out.reserve.fetch_sub(now - reserve_);
  if (to.out.waiting.load() > 0) wake(&to);
}

// Wakes the senders that wait for `whom`; nullptr: all of them.
void flow_control::wake(const peer* whom) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto* one : waiters_)
    if (!whom || one->at == whom) engine_.finish(one->woken);
}

// A small message goes though large ones fill the window, so that calls do not wait for tensors:
// out of a reserve of a quarter of the window, to which grants give back. What goes out of it
// counts against the window as well, so that a receiver never has more before it than a window, a
// quarter, and one message.
bool flow_control::take_small(peer& to, std::int64_t bytes) noexcept {
  if (bytes > largest_small_) return false;
  if (to.out.messages.fetch_sub(1) > 0) {
    if (to.out.reserve.fetch_sub(bytes) > 0) {
      to.out.bytes.fetch_sub(bytes);
      return true;
    }
    to.out.reserve.fetch_add(bytes);
  }
  to.out.messages.fetch_add(1);
  return false;
}

void flow_control::wait_for_room(peer& to, std::int64_t bytes, const send_wait& how) {
  if (take_small(to, bytes)) return;
  // This sender found it full, and may have made others find it full for a moment.
  if (to.out.waiting.load() > 0) wake(&to);
  // A sender that must not block, a timer for instance, sends all the same, and later ones wait for
  // the room that it takes.
  if (how.exceeds_window || (how.wait && !engine::may_block())) {
    to.out.messages.fetch_sub(1);
    to.out.bytes.fetch_sub(bytes);
    return;
  }
  if (!how.wait) throw overloaded_error(too_much(to, window_));
  const bool handler = self.owner == &engine_;
  auto pause = first_probe;
  for (;;) {
    waiter me{&to, handler, {}};
    if (enter(me, bytes)) return;
    bool woken = false;
    try {
      woken = engine_.wait(me.woken,
                           handler ? std::min(how.deadline, clock::now() + pause) : how.deadline);
    } catch (...) {
      leave(me);
      throw;
    }
    leave(me);
    if (woken) continue;
    if (clock::now() >= how.deadline) {
      auto why = too_much(to, window_);
      why.code = errc::rpc_timeout;
      why.limit = how.limit;
      why.text += ", for all of the call's limit of " + std::to_string(how.limit.count()) + " ms";
      throw rpc_timeout(std::move(why));
    }
    send_probe(to);
    pause = std::min(2 * pause, last_probe);
  }
}

// True: there is room after all. Otherwise `me` is woken when there may be.
bool flow_control::enter(waiter& me, std::int64_t bytes) {
  me.at->out.waiting.fetch_add(1);  // before it looks, so that whoever makes room sees it
  const std::lock_guard lock(mutex_);
  const bool room =
      me.at->live() && !closed_ && (try_take(*me.at, bytes) || take_small(*me.at, bytes));
  if (!room && me.at->live() && !closed_) {
    waiters_.push_back(&me);
    return false;
  }
  me.at->out.waiting.fetch_sub(1);
  if (room) return true;
  if (closed_) throw not_initialized("the node has been shut down");
  throw peer_lost(me.at->loss());
}

void flow_control::leave(waiter& me) noexcept {
  me.at->out.waiting.fetch_sub(1);
  const std::lock_guard lock(mutex_);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &me));
}

void flow_control::give_up(peer* whom) noexcept {
  if (!whom) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake(whom);
}

// ---- The receiver's half

void flow_control::return_credit(peer& from) noexcept {
  if (!from.live()) return;  // its next incarnation has sent none of it
  // Each of them is reported once, by the thread that claims it first.
  const auto claim = [](std::atomic<std::int64_t>& credited, std::int64_t now) {
    auto before = credited.load();
    while (before < now && !credited.compare_exchange_weak(before, now)) {
    }
    return std::max<std::int64_t>(0, now - before);
  };
  const auto messages = claim(from.in.credited_messages, from.in.messages.load());
  const auto bytes = claim(from.in.credited_bytes, from.in.bytes.load());
  if (messages > 0 || bytes > 0)
    out_.send_signal(from.rank(), signal::credit, static_cast<std::uint64_t>(messages),
                     static_cast<std::uint64_t>(bytes));
}

void flow_control::deliver(peer& from, signal what, std::uint64_t first,
                           std::uint64_t second) noexcept {
  switch (what) {
    case signal::credit:
      add(from, static_cast<std::int64_t>(std::min(first, most_messages)),
          static_cast<std::int64_t>(std::min(second, most_bytes)));
      return;
    case signal::probe: return take_probe(static_cast<transport::rank_t>(first), second);
    case signal::relieve:
      if (unlimited_ || !from.live()) return;
      // Handlers wait for one another, but others go on here: it is slow, and no deadlock.
      if (const auto taken = from.in.messages.load(); from.in.at_relief.exchange(taken) != taken)
        return;
      log().debug("handlers here and on {} wait for each other's windows; enlarging that of {}",
                  from.info.name, from.info.name);
      out_.send_signal(from.rank(), signal::credit,
                       std::max<std::uint64_t>(1, window_.messages / 2),
                       std::max<std::uint64_t>(1, window_.bytes / 2));
      return;
  }
}

// ---- Cycles

void flow_control::send_probe(peer& to) noexcept {
  std::uint64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    serial = ++serial_;
    std::erase_if(probes_, [&](const auto& one) { return one.first + 64 < serial; });
    probes_[serial] = to.rank();
  }
  out_.send_signal(to.rank(), signal::probe, self_, serial);
}

void flow_control::awaited(const peer& from, bool begins) noexcept {
  const std::lock_guard lock(mutex_);
  if (begins)
    ++awaited_[from.rank()];
  else if (--awaited_[from.rank()] == 0)
    awaited_.erase(from.rank());
}

void flow_control::take_probe(transport::rank_t initiator, std::uint64_t serial) noexcept {
  std::set<transport::rank_t> next;
  bool round = false;
  {
    const std::lock_guard lock(mutex_);
    const auto waits = [](const waiter* one) { return one->handler; };
    const bool stands = std::any_of(waiters_.begin(), waiters_.end(), waits);
    if (!stands && awaited_.empty()) return;
    if (initiator == self_) {
      if (!stands) return;
      const auto place = probes_.find(serial);
      if (place == probes_.end()) return;  // it has been back already
      next.insert(place->second);
      probes_.erase(place);
      round = true;
    } else {
      if (!peers_.find(initiator)) return;
      auto& latest = passed_on_[initiator];
      if (serial <= latest) return;
      latest = serial;
      for (const auto* one : waiters_)
        if (one->handler) next.insert(one->at->rank());
      for (const auto& [rank, handlers] : awaited_) next.insert(rank);
    }
  }
  for (const auto rank : next) {
    if (round)
      out_.send_signal(rank, signal::relieve, 0, 0);
    else
      out_.send_signal(rank, signal::probe, initiator, serial);
  }
}

}  // namespace troupe
