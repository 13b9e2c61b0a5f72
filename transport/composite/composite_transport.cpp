#include "troupe/transport/composite/composite_transport.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/composite/composite_address.hpp"
#include "troupe/transport/delivery/rank_table.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/system/unique_fd.hpp"
#include "troupe/transport/ucx/devices.hpp"

namespace troupe::transport {

namespace {

// TCP is polled by system calls, UCX by reading memory. Each has its turn in each poll after it has
// had something; otherwise TCP in every fourth, and UCX, while TCP has traffic, in every second,
// and after each turn of TCP that has brought something, which may have taken long. So neither adds
// much to the other's latency.
constexpr unsigned polls_between_turns = 4;
constexpr unsigned polls_after_an_event = 256;

struct peer {
  peer(rank_t rank_) : rank(rank_) {}

  const rank_t rank;
  // Publishes nothing: both transports are as old as this one, and `peers_` publishes the peer.
  // Relaxed would do.
  std::atomic<transport*> by{nullptr};
  std::string why_not_ucx;  // under the mutex of the transport
};

using peer_table = rank_table<peer>;

// UCX listens on no TCP port: what it may use between hosts is RDMA.
ucx_options choose_kind(ucx_options ucx, std::string& why_no_rdma) {
  ucx.one_host = false;
  ucx.net_devices.clear();  // those of RDMA have other names than interfaces
  if (!ucx.trusted_network) {
    why_no_rdma = "the network is not called trusted, which RDMA needs";
  } else if (std::ranges::none_of(find_ucx_devices(), &ucx_device::is_rdma)) {
    why_no_rdma = "UCX finds no RDMA device";
  }
  ucx.kind = why_no_rdma.empty() ? ucx_kind::rdma : ucx_kind::automatic;
  ucx.trusted_network = why_no_rdma.empty();
  return ucx;
}

class composite_transport final : public transport {
public:
  composite_transport(ucx_options ucx, tcp_options tcp, sink& to, payload_pool& pool)
      : rank_(tcp.rank), secret_(tcp.secret), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_)
      throw transport_error(with_descriptor_shortage(
          fmt::format("cannot get an epoll descriptor: {}", std::strerror(errno))));
    ucx_options_ = choose_kind(std::move(ucx), why_no_rdma_);
    tcp.reason.clear();
    try {
      ucx_ = make_ucx_transport(ucx_options_, to, pool);
      ucx_address_ = ucx_->address();
    } catch (const transport_error& e) {
      why_no_ucx_ = e.fault().text;
      log().warn("rank {}: the nodes of this host are reached by TCP, since UCX cannot start: {}",
                 rank_, why_no_ucx_);
    }
    tcp_ = make_tcp_transport(std::move(tcp), to, pool);
    for (const auto* one : {ucx_.get(), tcp_.get()}) {
      if (!one) continue;
      epoll_event event{};
      event.events = EPOLLIN;
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one->event_fd(), &event) != 0)
        throw transport_error(with_descriptor_shortage(
            fmt::format("epoll takes no descriptor: {}", std::strerror(errno))));
    }
  }

  std::vector<std::byte> address() const override {
    return encode(composite::address{ucx_address_, tcp_->address()}, secret_);
  }

  void add_peer(rank_t rank, std::span<const std::byte> bytes) override {
    if (rank >= peer_table::most)
      throw transport_error("cannot connect to " + rank_name(rank) + ": the rank is too large");
    composite::address where;
    try {
      where = composite::decode(bytes, secret_);
    } catch (const decode_error& e) {
      throw transport_error("cannot connect to " + rank_name(rank) + ": " + e.fault().text);
    }
    auto why = why_not_ucx(rank, where);
    auto& by = why.empty() ? *ucx_ : *tcp_;
    const std::lock_guard lock(mutex_);
    auto* known = peers_.find(rank);
    // One that has been lost may come back on another host.
    auto* const before = known ? known->by.load() : nullptr;
    if (before && before != &by && reaches(*before, rank))
      throw transport_error(rank_name(rank) + " is connected already; close it first");
    // Before it can send: whoever takes its messages may answer. If it cannot be added, `by` says
    // that it never was.
    if (!known) {
      auto made = std::make_unique<peer>(rank);
      known = made.get();
      known->by = &by;
      peers_.set(std::move(made));
    } else {
      // Pairs with the loads in `send` and `close_peer`.
      known->by.store(&by, std::memory_order_release);
    }
    try {
      by.add_peer(rank, why.empty() ? where.ucx : where.tcp);
    } catch (...) {
      if (before) known->by.store(before, std::memory_order_release);
      throw;
    }
    known->why_not_ucx = std::move(why);
    if (&by == tcp_.get() && rank != rank_) say_once(*known);
  }

  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    auto* const p = peers_.find(rank);
    if (!p) throw transport_error(rank_name(rank) + " was never added");
    return p->by.load(std::memory_order_acquire)
        ->send(rank, order, std::move(envelope), std::move(payloads));
  }

  unsigned progress() override {
    ++polls_;
    const bool tcp_has_traffic = tcp_turns_ > 0;
    const bool tcp_has_just_had_some = tcp_turns_ == polls_after_an_event;
    unsigned n = 0;
    if (ucx_ && (ucx_turns_ > 0 || !tcp_has_traffic || tcp_has_just_had_some || polls_ % 2 == 0))
      n += give_turn(*ucx_, ucx_turns_);
    if (tcp_has_traffic || polls_ % polls_between_turns == 0) n += give_turn(*tcp_, tcp_turns_);
    return n;
  }

  int event_fd() const override { return epoll_.get(); }

  // After a sleep both have a turn: either may have ended it.
  bool arm() override {
    for (auto* turns : {&ucx_turns_, &tcp_turns_}) *turns = std::max(*turns, 1u);
    return (!ucx_ || ucx_->arm()) && tcp_->arm();
  }

  void wake() override { tcp_->wake(); }

  bool idle() const override { return (!ucx_ || ucx_->idle()) && tcp_->idle(); }
  bool delivered() const override { return (!ucx_ || ucx_->delivered()) && tcp_->delivered(); }

  void close_peer(rank_t rank, bool force) override {
    if (auto* const p = peers_.find(rank))
      p->by.load(std::memory_order_acquire)->close_peer(rank, force);
  }

  std::vector<route> routes() const override {
    auto out = ucx_ ? ucx_->routes() : std::vector<route>();
    const std::lock_guard lock(mutex_);
    for (auto& one : tcp_->routes()) {
      const auto* const p = peers_.find(one.peer);
      if (p && !p->why_not_ucx.empty()) one.reason = p->why_not_ucx + "; " + one.reason;
      out.push_back(std::move(one));
    }
    std::ranges::sort(out, {}, &route::peer);
    return out;
  }

  counters count() const override {
    auto all = tcp_->count();
    if (!ucx_) return all;
    const auto more = ucx_->count();
    all.messages_sent += more.messages_sent;
    all.messages_received += more.messages_received;
    all.bytes_sent += more.bytes_sent;
    all.bytes_received += more.bytes_received;
    all.strangers += more.strangers;
    return all;
  }

private:
  static unsigned give_turn(transport& one, unsigned& turns) {
    const auto n = one.progress();
    if (n > 0)
      turns = polls_after_an_event;
    else if (turns > 0)
      --turns;
    return n;
  }

  static bool reaches(const transport& by, rank_t rank) {
    return std::ranges::any_of(by.routes(), [&](const route& one) { return one.peer == rank; });
  }

  // Empty: the peer is reached through UCX.
  std::string why_not_ucx(rank_t rank, const composite::address& where) const {
    if (!ucx_) return "UCX cannot start here: " + why_no_ucx_;
    if (where.ucx.empty()) return "UCX cannot start at its end";
    std::string place;
    try {
      place = ucx_apart(ucx_options_, ucx_address_, where.ucx);
    } catch (const transport_error& e) {
      throw transport_error("cannot connect to " + rank_name(rank) + ": " + e.fault().text);
    }
    if (place.empty()) return {};
    return fmt::format("it is in {}, and {}", place,
                       why_no_rdma_.empty() ? "has no RDMA device" : why_no_rdma_);
  }

  // What the job uses between hosts, once. Under the mutex.
  void say_once(const peer& p) {
    if (std::exchange(said_, true)) return;
    for (const auto& one : tcp_->routes())
      if (one.peer == p.rank)
        log().info("rank {}: {} and others like it are reached by TCP: {}; {}", rank_,
                   rank_name(p.rank), p.why_not_ucx, one.reason);
  }

  const rank_t rank_;
  const job_secret secret_;
  const unique_fd epoll_;
  std::string why_no_rdma_;
  std::string why_no_ucx_;
  ucx_options ucx_options_;
  std::unique_ptr<transport> ucx_;  // null: it cannot start
  std::vector<std::byte> ucx_address_;
  std::unique_ptr<transport> tcp_;
  // Guards adding peers, and reading all. Taken before the locks of the two transports.
  mutable std::mutex mutex_;
  peer_table peers_;
  bool said_ = false;

  // Used by the progressing thread only.
  unsigned polls_ = 0;
  unsigned ucx_turns_ = 0;  // polls in which UCX has its turn though TCP has traffic
  unsigned tcp_turns_ = 0;  // polls in which TCP has its turn
};

}  // namespace

std::unique_ptr<transport> make_composite_transport(ucx_options ucx, tcp_options tcp, sink& to,
                                                    payload_pool& pool) {
  return std::make_unique<composite_transport>(std::move(ucx), std::move(tcp), to, pool);
}

}  // namespace troupe::transport
