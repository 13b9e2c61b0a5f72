// Which descriptors epoll watches, and how connections to others are begun.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

constexpr auto time_to_connect = 1s;

}  // namespace

// ---- The epoll set

std::uint64_t backend::watch(target&& one, std::uint32_t events) {
  const auto id = ++last_target_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.fd, &event) != 0)
    throw transport_error(fmt::format("epoll takes no descriptor: {}", std::strerror(errno)));
  targets_.emplace(id, std::move(one));
  return id;
}

// Without events it leaves the set: even a descriptor that is there for nothing costs whoever sends
// to it a walk to it, with a lock, for each packet. False: the system refuses to take it back.
bool backend::rewatch(std::uint64_t id, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (events == 0) return epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return true;
  return errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void backend::unwatch(std::uint64_t id, int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  targets_.erase(id);
  if (hot_ == id) {
    hot_ = 0;
    hot_unwatched_ = false;
  }
}

// ---- Calls

// To a peer: one for each interface at least.
unsigned backend::bulk_streams() const noexcept {
  return std::max({1u, options_.bulk_streams, static_cast<unsigned>(options_.interfaces.size())});
}

// The address to connect from, where interfaces are named: that of the interface which `to` belongs
// to.
const socket_address* backend::source_for(const place& to, const peer& p) const {
  if (options_.interfaces.empty() || p.where.interfaces == 0) return nullptr;
  for (const auto& one : places_)
    if (one.at.interface == to.interface &&
        one.at.where.storage.ss_family == to.where.storage.ss_family)
      return &one.at.where;
  return nullptr;
}

std::vector<std::size_t> backend::order_of(const peer& p, unsigned index, bool bulk) const {
  return order_of_places(p.where, options_.interfaces.size(), places_,
                         bulk ? index : std::size_t{options_.rank} + p.rank);
}

// `attempt`: how many places were tried before. Streams for large payloads go where the messages
// go, or, where interfaces are named, to one after the other.
void backend::dial(peer& p, stream_kind kind, unsigned index, std::size_t attempt) {
  const bool bulk = kind == stream_kind::bulk;
  const bool named = !options_.interfaces.empty() && p.where.interfaces > 0;
  const auto order = order_of(p, index, bulk);
  const auto start = bulk && named ? 0 : p.place;
  const auto& to = p.where.places[order[(start + attempt) % order.size()]];
  const auto open = [&] {
    return ::socket(to.where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  };
  int made_fd = open();
  while (made_fd < 0 && (errno == EMFILE || errno == ENFILE) && drop_oldest_stranger())
    made_fd = open();
  unique_fd fd(made_fd);
  const auto now = steady::now();
  int error = fd ? 0 : errno;
  if (fd) {
    set_tcp_options(fd.get(), probes(options_));
    if (const auto* from = source_for(to, p)) {
      auto source = *from;
      source.set_port(0);
      const int later = 1;  // the kernel picks the port when it connects
      setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
      if (::bind(fd.get(), source.get(), source.length) != 0) error = errno;
    }
    if (error == 0 && ::connect(fd.get(), to.where.get(), to.where.length) != 0 &&
        errno != EINPROGRESS)
      error = errno;
  }
  stream_claim claim{options_.rank, p.rank, id_, p.where.id, kind, options_.protection};
  if (bulk) claim.beside = p.messages->connection();
  const int number = fd.get();
  auto made = std::make_unique<greeting>(options_.secret, std::move(fd), claim, p);
  made->due = now + time_to_connect;
  made->index = index;
  made->attempt = attempt;
  if (bulk) made->beside = p.messages;
  if (kind == stream_kind::messages)
    p.dialing = true;
  else
    ++p.bulk_dials;
  auto& one = *made;
  one.place = greetings_.insert(greetings_.end(), std::move(made));
  if (error != 0) {  // at once, as over the loopback interface
    one.set_failed(error);
    failed(0, one);
    return;
  }
  attend_by(one.due);
  try {
    one.id =
        watch({.what = target::kind::greeting, .fd = number, .greets = &one}, EPOLLIN | EPOLLOUT);
  } catch (const transport_error&) {
    one.set_failed(ENOMEM);
    failed(0, one);
  }
}

}  // namespace troupe::transport::tcp
