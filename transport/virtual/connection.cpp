#include "troupe/transport/virtual/connection.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::transport::virtual_net {

namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds first_timeout = 1ms;  // before a round trip was measured
constexpr nanoseconds least_timeout = 200us;
constexpr nanoseconds answer_delay = 20us;
constexpr unsigned answer_after = 8;  // datagrams, without delay

incoming_payload copy(const outgoing_payload& from, payload_pool& pool) {
  incoming_payload to;
  to.size = from.size;
  to.place = from.place;
  if (from.size == 0) return to;
  to.data = pool.allocate(from.size, from.place);
  std::memcpy(to.data.get(), from.data, from.size);
  return to;
}

}  // namespace

connection::connection(fabric& net, const node_key& self, const node_key& peer,
                       std::size_t& unacknowledged)
    : net_(net), self_(self), peer_(peer), unacknowledged_(unacknowledged), parts_(peer.rank) {}

void connection::send(std::uint64_t order, frame&& envelope,
                      std::vector<outgoing_payload>&& payloads) {
  const auto put = [&](std::shared_ptr<parcel> body) {
    body->sequence = messages_;
    queue_.push_back({std::move(body), {}});
    ++unacknowledged_;
  };
  auto first = std::make_shared<parcel>();
  first->order = order;
  first->payloads = payloads.size();
  first->envelope = std::move(envelope);
  put(std::move(first));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    auto body = std::make_shared<parcel>();
    body->is_payload = true;
    body->index = i;
    body->payload = std::move(payloads[i]);
    put(std::move(body));
  }
  ++messages_;
  pump();
}

// Sends what the window has room for.
void connection::pump() {
  const std::uint64_t end = first_ + std::min<std::uint64_t>(queue_.size(), window);
  for (; sent_ < end; ++sent_) transmit(sent_, false);
  watch();
}

void connection::transmit(std::uint64_t number, bool again) {
  outgoing& o = queue_[number - first_];
  o.departed = depart(*o.body);
  // The time that bytes wait for this node's own link is not held against the peer.
  if (deadline_ == never)
    deadline_ = o.departed + net_.options().limit;
  else if (again)
    deadline_ += o.departed - net_.now();
  datagram d;
  d.from = self_;
  d.to = peer_;
  d.kind = o.body->is_payload ? datagram_kind::payload : datagram_kind::message;
  d.number = number;
  d.body = o.body;
  if (o.departed - net_.now() <= answer_delay)
    d.ack = acknowledge();
  else
    d.ack = {next_, beyond_, never};
  net_.transmit(std::move(d), o.departed, again);
}

// When the last byte of `body` has left, if it is put on the link now.
virtual_time connection::depart(const parcel& body) {
  const auto now = net_.now();
  const double bandwidth = net_.ways().of(self_.rank, peer_.rank).bandwidth;
  if (bandwidth <= 0) return now;
  const nanoseconds takes(
      static_cast<std::int64_t>(static_cast<double>(64 + body.size()) / bandwidth * 1e9));
  if (body.is_payload) return bulk_free_ = std::max({now, small_free_, bulk_free_}) + takes;
  if (bulk_free_ > now) bulk_free_ += takes;
  return small_free_ = std::max(now, small_free_) + takes;
}

void connection::acknowledged(const acknowledgement& ack) {
  bool advanced = false;
  const auto let_go = [&](outgoing& o) {
    if (!o.body) return;
    advanced = true;
    o.body.reset();
    --unacknowledged_;
  };
  for (; first_ < std::min(ack.next, sent_); ++first_) {
    let_go(queue_.front());
    queue_.pop_front();
  }
  for (std::uint64_t bits = ack.beyond; bits != 0; bits &= bits - 1) {
    const std::uint64_t number = ack.next + 1 + static_cast<std::uint64_t>(__builtin_ctzll(bits));
    if (number >= first_ && number < sent_) let_go(queue_[number - first_]);
  }
  if (!advanced) return;
  fruitless_ = 0;
  if (ack.echo != never) measure(ack.echo);
  deadline_ = sent_ == first_
                  ? never
                  : std::max(net_.now(), queue_.front().departed) + net_.options().limit;
  pump();
}

void connection::measure(virtual_time echo) {
  const nanoseconds trip = net_.now() - echo;
  if (smooth_ == 0ns) {
    smooth_ = trip;
    spread_ = trip / 2;
    return;
  }
  spread_ += (std::max(trip - smooth_, smooth_ - trip) - spread_) / 4;
  smooth_ += (trip - smooth_) / 8;
}

nanoseconds connection::retransmit_timeout() const {
  const nanoseconds once =
      smooth_ == 0ns ? first_timeout : std::max(least_timeout, smooth_ + 4 * spread_);
  // Bounded, so that even when most are lost, some get through before the peer is given up.
  const nanoseconds most = std::max<nanoseconds>(once, net_.options().limit / 32);
  return std::min(once * (1 << std::min(fruitless_, 20u)), most);
}

// Sets the timer for the next moment at which something must be sent again, unless an earlier one
// is set, which will look again.
void connection::watch() {
  if (sent_ == first_) return;
  virtual_time when = never;
  for (std::uint64_t i = 0; i < sent_ - first_; ++i)
    if (queue_[i].body) when = std::min(when, queue_[i].departed);
  if (when == never) return;
  when = std::max(net_.now(), std::min(when + retransmit_timeout(), deadline_));
  if (when >= watch_) return;
  watch_ = when;
  net_.set_alarm(when, {alarm::kind::resend, self_.id, peer_.id});
}

bool connection::alarmed(alarm::kind what) {
  const auto now = net_.now();
  if (what == alarm::kind::acknowledge) {
    if (now != answer_alarm_) return true;  // replaced by an earlier one
    answer_alarm_ = never;
    if (answer_at_ != never) want_acknowledgement();
    return true;
  }
  if (now != watch_) return true;
  watch_ = never;
  if (sent_ == first_) return true;
  if (now >= deadline_) return false;
  const nanoseconds wait = retransmit_timeout();
  bool again = false;
  for (std::uint64_t n = first_; n < sent_; ++n) {
    const outgoing& o = queue_[n - first_];
    if (!o.body || o.departed + wait > now) continue;
    transmit(n, true);
    again = true;
  }
  fruitless_ += again;
  watch();
  return true;
}

bool connection::take(const datagram& d, payload_pool& pool, std::vector<incoming_message>& out) {
  if (d.number > next_ + window) return true;  // beyond the window: our peers never send it
  const bool known =
      d.number < next_ || (d.number > next_ && (beyond_ >> (d.number - next_ - 1) & 1) != 0);
  if (!known) {
    if (d.number > next_) {
      beyond_ |= std::uint64_t{1} << (d.number - next_ - 1);
    } else {
      bool more = true;
      while (more) {
        ++next_;
        more = (beyond_ & 1) != 0;
        beyond_ >>= 1;
      }
    }
  }
  if (echo_ == never) echo_ = d.sent;
  ++unanswered_;
  if (answer_at_ == never) answer_at_ = net_.now() + answer_delay;
  want_acknowledgement();
  if (known || closing) return !known;
  const parcel& body = *d.body;
  if (body.is_payload)
    parts_.payload(body.sequence, body.index, copy(body.payload, pool), out);
  else
    parts_.envelope(body.sequence, body.order, body.payloads, frame(body.envelope.bytes()), out);
  return true;
}

// Sends an acknowledgement alone when it is due, and otherwise sets the timer for it.
void connection::want_acknowledgement() {
  if (unanswered_ >= answer_after || net_.now() >= answer_at_) {
    datagram d;
    d.from = self_;
    d.to = peer_;
    d.kind = datagram_kind::ack;
    d.ack = acknowledge();
    return net_.transmit(std::move(d), net_.now());
  }
  if (answer_at_ >= answer_alarm_) return;
  answer_alarm_ = answer_at_;
  net_.set_alarm(answer_at_, {alarm::kind::acknowledge, self_.id, peer_.id});
}

acknowledgement connection::acknowledge() {
  unanswered_ = 0;
  answer_at_ = never;
  return {next_, beyond_, std::exchange(echo_, never)};
}

void connection::drop() {
  for (auto& o : queue_)
    if (o.body) o.body->withdraw();
  forget();
}

void connection::forget() {
  for (const auto& o : queue_)
    if (o.body) --unacknowledged_;
  first_ = sent_ = first_ + queue_.size();
  queue_.clear();
  deadline_ = never;
}

}  // namespace troupe::transport::virtual_net
