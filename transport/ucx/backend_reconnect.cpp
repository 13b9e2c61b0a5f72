// A peer on the network whose connection broke is connected again, until it answers or has been out
// of reach for too long. Both ends may start: they agree on the higher of their connection numbers.

#include <sched.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "troupe/messages/base/log.hpp"
#include "troupe/transport/ucx/backend.hpp"

namespace troupe::transport::ucx {

namespace {

using namespace std::chrono_literals;

// How long the first attempt may take; each further one twice as long.
constexpr auto first_backoff = 250ms;
// The pause after an attempt that failed at once.
constexpr auto pause = 50ms;
// The peer is lost after so many refused attempts in a row (not for want of a route): its host is
// there, and no process listens.
constexpr unsigned most_refusals = 5;
// How many messages are sent again in one call, so that `progress` returns.
constexpr std::size_t batch = 256;

std::string seconds(link::clock::duration d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(d).count());
  return text;
}

}  // namespace

// The present connection broke.
void backend::out_of_reach(peer& p, const peer_loss& why) {
  link& l = *p.net;
  if (p.status.load() == peer::state::gone) return;
  if (l.now != link::phase::calling) {
    reconnect(p, l.number.load() + 1, why.text);
    return;
  }
  if (std::exchange(l.failed, true)) return;
  const auto now = link::clock::now();
  l.refusals = now - l.tried_at < first_backoff ? l.refusals + 1 : 0;
  l.retry_at = std::min(l.retry_at, now + pause);
}

// Begins connection `number`. Until it is answered, messages are only kept.
void backend::reconnect(peer& p, std::uint64_t number, const std::string& why) {
  link& l = *p.net;
  const auto now = link::clock::now();
  if (l.now != link::phase::calling) {
    // UCX does not say whether TCP gave up a silent connection or something cut it just now. The
    // connection cannot have been silent for longer than this.
    l.silent_from = std::max(l.last_activity, now - longest_silence(options_.tcp_limit));
    l.backoff = first_backoff;
    l.refusals = 0;
    l.why = why;
    log().info("connecting to rank {} again: {}", p.rank, why);
    if (l.now == link::phase::up) {
      unlinked_.push_back(&p);
      // Before `release_endpoint` ends the sends of the connection: their decrements publish this
      // to `idle`.
      unlinked_count_.fetch_add(1, std::memory_order_release);
    }
    l.now = link::phase::calling;
  }
  {
    const std::lock_guard lock(l.mutex);
    l.open = false;
  }
  // Pairs with the release in `send_over_network`: those who found the link open do not use the
  // endpoint any more.
  while (l.users.load(std::memory_order_acquire) != 0) sched_yield();
  l.number.store(number);  // before the sends of the old connection end
  release_endpoint(p, true);
  l.failed = false;
  l.tried_at = now;
  l.retry_at = now + l.backoff;
  ucp_ep_h made = nullptr;
  auto status = open_endpoint(p, *common_, l.address, made);
  if (status == UCS_OK) {
    p.ep = made;
    status = send_hello(p);
  }
  if (status == UCS_OK)
    send_acknowledgement(p, number, true);
  else
    l.retry_at = now + l.backoff / 4;  // there is no route at present
  l.backoff *= 2;
}

// The peer has answered the present connection.
void backend::answered(peer& p) {
  link& l = *p.net;
  if (l.now != link::phase::calling) return;
  l.now = link::phase::resending;
  l.next = l.unacknowledged.acknowledged();
}

// Sends the unacknowledged messages again, in order; true when senders may go on by themselves.
bool backend::resend(peer& p) {
  link& l = *p.net;
  std::vector<retransmit_queue::message> again;
  bool all = false;
  {
    const std::lock_guard lock(l.mutex);
    again = l.unacknowledged.from(l.next, batch);
    // A sender that has a number and has not locked the mutex yet will find the link open.
    all = again.size() < batch;
    if (all) l.open = true;
  }
  for (const auto& m : again) {
    // A gap belongs to a sender that has not added its message yet.
    if (!all && m->sequence != std::max(l.next, l.unacknowledged.acknowledged())) break;
    l.next = m->sequence + 1;
    transmit(p, m);
  }
  if (all) {
    l.now = link::phase::up;
    log().info("connected to rank {} again", p.rank);
  }
  return all;
}

// Handles the peers that are being connected again: the next attempt, what is to be sent again, or
// the end.
unsigned backend::attend_to_links() {
  unsigned n = 0;
  if (std::exchange(alarm_set_, false)) {
    const itimerspec never{};
    timerfd_settime(alarm_, 0, &never, nullptr);
    ++n;
  }
  const auto now = link::clock::now();
  for (std::size_t i = 0; i < unlinked_.size(); ++i) {
    peer& p = *unlinked_[i];
    link& l = *p.net;
    if (p.status.load() == peer::state::gone) continue;
    if (l.now == link::phase::resending) {
      resend(p);
      ++n;
    } else if (l.refusals >= most_refusals) {
      lose(p, {loss_kind::broken, "no process answers there any more: " + l.why});
      ++n;
    } else if (now >= l.silent_from + options_.tcp_limit) {
      lose(p,
           {loss_kind::broken, "not reachable for " + seconds(now - l.silent_from) + ": " + l.why});
      ++n;
    } else if (now >= l.retry_at) {
      reconnect(p, l.number.load() + 1, l.why);
      ++n;
    }
  }
  const auto done = std::erase_if(unlinked_, [](const peer* p) {
    return p->status.load() == peer::state::gone || p->net->now == link::phase::up;
  });
  // After `resend`, whose sends count in `sends_`.
  unlinked_count_.fetch_sub(done, std::memory_order_release);
  return n;
}

// Sets the timer that ends the following sleep when a peer is to be connected again, closed or
// given up; false: that is now.
bool backend::set_alarm() {
  auto next = link::clock::time_point::max();
  for (const peer* p : unlinked_) {
    if (p->net->now != link::phase::calling) return false;
    next = std::min({next, p->net->retry_at, p->net->silent_from + options_.tcp_limit});
  }
  for (const auto& one : closing_) next = std::min(next, one.until);
  for (const auto& one : suspects_) next = std::min(next, one.until);
  const auto left = next - link::clock::now();
  if (left <= 0ns) return false;
  itimerspec in{};
  in.it_value.tv_sec = std::chrono::floor<std::chrono::seconds>(left).count();
  in.it_value.tv_nsec = (left % 1s).count();
  timerfd_settime(alarm_, 0, &in, nullptr);
  alarm_set_ = true;
  return true;
}

}  // namespace troupe::transport::ucx
