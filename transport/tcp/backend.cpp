#include "troupe/transport/tcp/backend.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport {

namespace tcp {

namespace {

unique_fd need(int fd, const char* what) {
  if (fd < 0)
    throw transport_error(with_descriptor_shortage(
        fmt::format("a TCP transport cannot get {}: {}", what, std::strerror(errno))));
  return unique_fd(fd);
}

// Where /proc does not say it, no process is watched: the identity is that of no process.
process_identity identity_if_known() {
  try {
    return this_process();
  } catch (const transport_error& e) {
    log().info("cannot determine which processes are on this host: {}", e.fault().text);
    return {};
  }
}

}  // namespace

backend::backend(tcp_options options, sink& to, payload_pool& pool)
    : options_(std::move(options)),
      sink_(to),
      pool_(pool),
      process_(identity_if_known()),
      epoll_(need(epoll_create1(EPOLL_CLOEXEC), "an epoll descriptor")),
      wake_(need(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "an event descriptor")),
      timer_(need(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "a timer")) {
  random_bytes(id_);
  watch({.what = target::kind::wake, .fd = wake_.get()}, EPOLLIN);
  watch({.what = target::kind::timer, .fd = timer_.get()}, EPOLLIN);
  listen();
}

void backend::listen() {
  places_ = local_places(options_.interfaces);
  if (places_.size() > address::most_places) places_.resize(address::most_places);
  std::vector<local_place> listening;
  for (auto& place : places_) {
    auto& where = place.at.where;
    connect_result made;
    std::uint32_t port = options_.ports.first;
    do {
      where.set_port(static_cast<std::uint16_t>(port));
      made = listen_on(where);
    } while (!made.fd && made.error == EADDRINUSE && ++port <= options_.ports.last);
    // An IPv6 address may be here and not be usable yet; others do as well.
    if (!made.fd && made.error == EADDRNOTAVAIL && options_.interfaces.empty()) continue;
    if (!made.fd) {
      const auto range =
          options_.ports.last > 0
              ? fmt::format(" on a port of {} to {}", options_.ports.first, options_.ports.last)
              : std::string();
      throw transport_error(
          with_descriptor_shortage(fmt::format("cannot listen at {} ({}){}: {}", to_string(where),
                                               place.interface, range, std::strerror(made.error))));
    }
    where = local_address(made.fd.get());
    watch({.what = target::kind::listener, .fd = made.fd.get()}, EPOLLIN);
    listeners_.push_back(std::move(made.fd));
    listening.push_back(std::move(place));
  }
  if (listening.empty()) throw transport_error("cannot listen on any address of this host");
  places_ = std::move(listening);
}

// Others are notified, if their connections have room: no data of theirs is waited for.
backend::~backend() {
  for (const auto& p : peers_.all()) {
    stream::sent_records sent;  // dropped after the lock
    const std::lock_guard lock(p->mutex);
    if (p->status == peer::state::gone || !p->messages) continue;
    p->messages->say_leave(sent);
    ::shutdown(p->messages->fd(), SHUT_WR);
    // What lies here unread would have the kernel take back what it has not sent.
    std::array<std::byte, 4096> dropped;
    for (int i = 0; i < 256; ++i)
      if (::recv(p->messages->fd(), dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) break;
  }
}

std::vector<std::byte> backend::address() const {
  tcp::address out{options_.rank,
                   id_,
                   options_.protection,
                   static_cast<std::uint8_t>(options_.interfaces.size()),
                   {},
                   process_};
  for (const auto& one : places_) out.places.push_back(one.at);
  return encode(out, options_.secret);
}

void backend::add_peer(rank_t rank, std::span<const std::byte> bytes) {
  const auto who = "cannot connect to " + rank_name(rank) + ": ";
  if (rank >= peer_table::most) throw transport_error(who + "the rank is too large");
  tcp::address where;
  try {
    where = decode(bytes, options_.secret);
  } catch (const error& e) {
    throw transport_error(who + e.fault().text);
  }
  if (where.rank != rank)
    throw transport_error(who + "this is the address of " + rank_name(where.rank));
  if (rank == options_.rank && where.id != id_)
    throw transport_error(who + "this is the node's own rank, and the address of another one");
  if (where.protection != options_.protection)
    throw transport_error(who +
                          "it protects its connections in another way "
                          "(rpc_options::encryption must be the same on all nodes)");
  if (where.interfaces > 0 && !options_.interfaces.empty() &&
      where.interfaces != options_.interfaces.size())
    throw transport_error(fmt::format(
        "{}it uses {} network interfaces, and this node {}: the number must be the same on all "
        "nodes (rpc_options::net_devices, TROUPE_INTERFACES)",
        who, where.interfaces, options_.interfaces.size()));
  const std::lock_guard lock(mutex_);
  if (auto* before = peers_.find(rank)) {
    const std::lock_guard of(before->mutex);
    if (before->status == peer::state::live)
      throw transport_error(rank_name(rank) + " is connected already; close it first");
    if (before->where.id == where.id)
      throw transport_error(rank_name(rank) +
                            " was lost and cannot be added again with the same address");
  }
  unique_fd process;
  try {
    process = process_of(where, rank);
  } catch (const error& e) {
    throw transport_error(who + e.fault().text);
  }
  auto made = std::make_unique<peer>(rank, std::move(where));
  made->process = std::move(process);
  made->wanted = rank != options_.rank && std::min(rank, options_.rank) < options_.eager_below;
  auto* const added = made.get();
  peers_.set(std::move(made));
  post({added, order::kind::added});
}

void backend::post(order&& one) {
  {
    const std::lock_guard lock(orders_mutex_);
    orders_.push_back(std::move(one));
    // `orders_mutex_` publishes the orders. The wake ends a sleep that has not seen the flag.
    any_orders_.store(true, std::memory_order_release);
  }
  wake();
}

void backend::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

void backend::close_peer(rank_t rank, bool force) {
  auto* const p = peers_.find(rank);
  if (!p) return;
  {
    const std::lock_guard lock(p->mutex);
    if (p->status == peer::state::gone || (p->status == peer::state::closing && !force)) return;
    p->status = peer::state::closing;
    if (p->reason.empty()) p->reason = "this node closed the connection";
  }
  post({p, force ? order::kind::force_close : order::kind::close});
}

template <class Check>
bool backend::all_peers(Check&& is_so) const {
  const std::lock_guard lock(mutex_);
  for (const auto& p : peers_.all()) {
    const std::lock_guard of(p->mutex);
    if (p->status != peer::state::gone && !is_so(*p)) return false;
  }
  return true;
}

bool backend::idle() const {
  return all_peers([](peer& p) {
    return p.bulk_unsent.load() == 0 && !p.bulk_busy.load() &&
           (p.open ? p.messages->empty() : p.unacknowledged.size() == 0);
  });
}

bool backend::delivered() const {
  return all_peers([](peer& p) { return p.unacknowledged.size() == 0; });
}

std::vector<route> backend::routes() const {
  std::vector<route> out;
  const char* const how = options_.protection == stream_protection::encrypt ? "encrypted"
                          : options_.protection == stream_protection::authenticate
                              ? "authenticated"
                              : "not protected";
  const std::lock_guard lock(mutex_);
  for (const auto& p : peers_.all()) {
    const std::lock_guard of(p->mutex);
    if (p->status != peer::state::live) continue;
    if (p->rank == options_.rank) {
      out.push_back({p->rank, "tcp", "memory", "it is this node"});
      continue;
    }
    out.push_back({p->rank, "tcp",
                   p->lanes.empty()
                       ? fmt::format("tcp/{}, not connected yet", places_.front().interface)
                       : p->lanes,
                   fmt::format("{}{}both ends of a connection prove that they have the job's "
                               "secret; {}",
                               options_.reason, options_.reason.empty() ? "" : "; ", how)});
  }
  return out;
}

counters backend::count() const {
  return {messages_sent_, messages_received_, bytes_sent_, bytes_received_, strangers_};
}

}  // namespace tcp

std::unique_ptr<transport> make_tcp_transport(tcp_options options, sink& to, payload_pool& pool) {
  return std::make_unique<tcp::backend>(std::move(options), to, pool);
}

}  // namespace troupe::transport
