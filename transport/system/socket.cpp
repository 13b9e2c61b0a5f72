#include "troupe/transport/system/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/deadline.hpp"

namespace troupe::transport {

namespace {

struct lookup {
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  int status = 0;
  int system_error = 0;
  std::vector<socket_address> found;
};

void look_up(const endpoint& where, int flags, lookup& out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  out.status = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  out.system_error = errno;
  for (auto* info = list; info; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    socket_address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    out.found.push_back(address);
  }
  if (list) freeaddrinfo(list);
  // IPv4 first: a name with both is often served on IPv4 only, "localhost" above all.
  std::ranges::stable_partition(
      out.found, [](const auto& address) { return address.storage.ss_family == AF_INET; });
}

// Of the store's connections.
constexpr tcp_probes store_probes{std::chrono::seconds(5), std::chrono::seconds(2), 5,
                                  std::chrono::seconds(15)};

bool wait_for(int fd, short events, time_point deadline) {
  pollfd p{fd, events, 0};
  while (true) {
    const auto left = time_left(deadline).count();
    const int n = poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000)));
    if (n > 0) return true;
    if (n == 0 && left <= 1'000'000) return false;
    if (n < 0 && errno != EINTR && errno != EAGAIN) return true;  // the next call returns the error
  }
}

template <class Call>
io_result move_all(int fd, std::size_t size, short events, time_point deadline, Call&& call) {
  std::size_t moved = 0;
  while (moved < size) {
    const auto n = call(moved);
    if (n > 0) {
      moved += static_cast<std::size_t>(n);
    } else if (n == 0) {
      return io_result::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, events, deadline)) return io_result::timed_out;
    } else if (errno != EINTR) {
      return io_result::closed;
    }
  }
  return io_result::done;
}

template <class Get>
socket_address ask_address(int fd, Get&& get) {
  socket_address out;
  out.length = sizeof out.storage;
  if (get(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.length) != 0) out.length = 0;
  return out;
}

bool same_end(const socket_address& a, const socket_address& b) {
  return a.length == b.length && std::memcmp(&a.storage, &b.storage, a.length) == 0;
}

}  // namespace

void set_tcp_options(int fd, const tcp_probes& how) noexcept {
  const auto set = [fd](int level, int option, std::int64_t value) {
    const auto number = static_cast<int>(value);
    setsockopt(fd, level, option, &number, sizeof number);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, how.idle.count());
  set(IPPROTO_TCP, TCP_KEEPINTVL, how.interval.count());
  set(IPPROTO_TCP, TCP_KEEPCNT, how.count);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, how.unacknowledged.count());
}

std::string to_string(const endpoint& where) {
  const bool v6 = where.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), where.host, where.port);
}

bool socket_address::is_loopback() const {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

bool socket_address::is_any() const {
  if (storage.ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

std::uint16_t socket_address::port() const {
  return ntohs(storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

void socket_address::set_port(std::uint16_t port) {
  if (storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  else
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
}

std::string to_string(const socket_address& address) {
  char host[INET6_ADDRSTRLEN] = "an unknown address";
  if (address.length == 0) return host;
  if (address.storage.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, host,
              sizeof host);
  else
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, host,
              sizeof host);
  return to_string(endpoint{host, address.port()});
}

bool socket_address::has_host_of(const socket_address& other) const {
  if (storage.ss_family != other.storage.ss_family) return false;
  if (storage.ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other.storage).sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr,
                            &reinterpret_cast<const sockaddr_in6&>(other.storage).sin6_addr);
}

std::vector<socket_address> resolve(const endpoint& where, time_point deadline) {
  const auto state = std::make_shared<lookup>();
  look_up(where, AI_NUMERICHOST, *state);
  if (state->status == EAI_NONAME) {
    // getaddrinfo may block for very long and cannot be cancelled, so it runs on a thread that is
    // left behind if need be.
    state->found.clear();
    std::thread([state, where] {
      lookup result;
      look_up(where, 0, result);
      std::lock_guard lock(state->mutex);
      state->status = result.status;
      state->system_error = result.system_error;
      state->found = std::move(result.found);
      state->finished = true;
      state->changed.notify_all();
    }).detach();
    std::unique_lock lock(state->mutex);
    if (!state->changed.wait_until(lock, deadline, [&] { return state->finished; }))
      throw store_error(
          fmt::format("the name service gave no address for host '{}' in time", where.host));
  }
  if (state->status != 0 || state->found.empty()) {
    const char* why = state->status == EAI_SYSTEM ? std::strerror(state->system_error)
                      : state->status != 0        ? gai_strerror(state->status)
                                                  : "it has no IP address";
    throw store_error(fmt::format("host '{}' cannot be resolved: {}", where.host, why));
  }
  return std::move(state->found);
}

connect_result connect_to(const socket_address& address, time_point deadline) {
  unique_fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno};
  set_tcp_options(fd.get(), store_probes);
  if (connect(fd.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS) return {{}, errno};
    if (!wait_for(fd.get(), POLLOUT, deadline)) return {{}, ETIMEDOUT};
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return {{}, error};
  }
  // TCP connects a socket to itself when no process listens and the kernel happens to pick the
  // target as the source port.
  if (same_end(local_address(fd.get()), peer_address(fd.get()))) return {{}, ECONNREFUSED};
  return {std::move(fd), 0};
}

connect_result listen_on(const socket_address& address) {
  unique_fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno};
  const int on = 1;
  // Connections of an earlier job that still linger do not keep the port; a listener does.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  set_tcp_options(fd.get(), store_probes);
  if (bind(fd.get(), address.get(), address.length) != 0) return {{}, errno};
  if (listen(fd.get(), SOMAXCONN) != 0) return {{}, errno};
  return {std::move(fd), 0};
}

socket_address local_address(int fd) { return ask_address(fd, getsockname); }
socket_address peer_address(int fd) { return ask_address(fd, getpeername); }

bool wait_readable(int fd, time_point deadline) { return wait_for(fd, POLLIN, deadline); }

io_result read_all(int fd, std::span<std::byte> bytes, time_point deadline) {
  return move_all(fd, bytes.size(), POLLIN, deadline, [&](std::size_t at) {
    return recv(fd, bytes.data() + at, bytes.size() - at, 0);
  });
}

io_result write_all(int fd, std::span<const std::byte> bytes, time_point deadline) {
  return move_all(fd, bytes.size(), POLLOUT, deadline, [&](std::size_t at) {
    return send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
  });
}

}  // namespace troupe::transport
