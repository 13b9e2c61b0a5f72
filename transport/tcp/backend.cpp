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
    log().info("which processes are on this host cannot be told: {}", e.fault().text);
    return {};
  }
}

std::string rank_name(rank_t rank) { return "rank " + std::to_string(rank); }

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
  if (listening.empty()) throw transport_error("no address of this host can be listened on");
  places_ = std::move(listening);
}

// Others hear of it, if their connections have room: no data of theirs is waited for.
backend::~backend() {
  for (const auto& p : peers_.all()) {
    const std::lock_guard lock(p->mutex);
    if (p->status == peer::state::gone || !p->messages) continue;
    p->messages->say_leave();
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
  tell({added, order::kind::added});
}

bool backend::send(rank_t rank, std::uint64_t order, frame&& envelope,
                   std::vector<outgoing_payload>&& payloads) {
  if (payloads.size() > max_payloads)
    throw invalid_argument(
        fmt::format("a message can have {} payloads, not {}", max_payloads, payloads.size()));
  for (const auto& one : payloads)
    if (one.place.where != memory_place::kind::host)
      throw transport_error("the TCP transport carries host memory only");
  if (envelope.size() > UINT32_MAX)
    throw invalid_argument("an envelope of 4 GiB or more cannot be sent");
  auto* const p = peers_.find(rank);
  if (!p) throw transport_error(rank_name(rank) + " was never added");
  std::uint64_t bytes = envelope.size();
  for (const auto& one : payloads) bytes += one.size;
  bool more = true;
  {
    const std::lock_guard lock(p->mutex);
    if (p->status != peer::state::live) throw peer_lost(rank_name(rank) + " is lost: " + p->reason);
    auto m = std::make_shared<sent_message>();
    m->sequence = p->next_sequence++;
    m->order = order;
    m->envelope = std::move(envelope);
    m->payloads = std::move(payloads);
    const retransmit_queue::message kept = std::move(m);
    p->unacknowledged.keep(kept);
    if (rank == options_.rank) any_own_.store(true, std::memory_order_release);
    if (p->open) {
      more = transmit(*p, kept);
      more = flush(*p) || more;
    } else if (rank != options_.rank && !p->wanted.exchange(true)) {
      tell({p, order::kind::call});
    }
  }
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  return more;
}

// Adds a message to the connection, and its large payloads to the queue for the bulk streams. True:
// there are some. Under the peer's mutex.
bool backend::transmit(peer& p, const retransmit_queue::message& m) {
  const auto put = [&](record_head head, const std::byte* data, std::size_t size) {
    (size <= largest_body ? head.size : head.attached) = static_cast<std::uint32_t>(size);
    p.messages->add({head, data, m});
  };
  record_head head;
  head.kind = record_kind::message;
  head.sequence = m->sequence;
  head.order = m->order;
  head.expected = p.expected.load(std::memory_order_acquire);
  head.count = static_cast<std::uint32_t>(m->payloads.size());
  p.told.store(head.expected, std::memory_order_relaxed);
  put(head, m->envelope.data(), m->envelope.size());
  bool bulk = false;
  for (std::uint32_t i = 0; i < m->payloads.size(); ++i) {
    const auto& one = m->payloads[i];
    if (one.size >= options_.bulk_threshold && one.size > 0) {
      const std::lock_guard lock(p.bulk_mutex);
      p.bulk.push_back({m, i, 0});
      p.bulk_unsent.fetch_add(1);
      bulk = true;
      continue;
    }
    record_head part;
    part.kind = record_kind::payload;
    part.sequence = m->sequence;
    part.order = one.size;
    part.count = i;
    part.place = static_cast<std::uint8_t>(one.place.where);
    part.device = one.place.device;
    put(part, one.data, one.size);
  }
  if (bulk) any_bulk_.store(true, std::memory_order_release);
  return bulk;
}

// Writes what is to be written. True: not all of it went. Under the peer's mutex.
bool backend::flush(peer& p) {
  std::string why;
  if (!p.messages->flush(why)) {
    tell({&p, order::kind::broke, p.messages, std::move(why)});
    p.open = false;
    return true;
  }
  if (p.messages->empty()) return false;
  if (!p.wants_write) {
    p.wants_write = true;
    rewatch(p.messages->id, p.messages->fd(), EPOLLIN | EPOLLOUT);
  }
  return true;
}

void backend::tell(order&& one) {
  {
    const std::lock_guard lock(orders_mutex_);
    orders_.push_back(std::move(one));
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
  tell({p, force ? order::kind::force_close : order::kind::close});
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
