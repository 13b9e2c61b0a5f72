#include "troupe/transport/regions/channel_socket.hpp"

#include <fcntl.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/system/deadline.hpp"

namespace troupe::transport::channel_socket {

namespace {

// What an address that was received can name begins with this, so it leads to no other service.
constexpr std::string_view channel_prefix = "troupe-memory-";
constexpr std::string_view channel_digits = "0123456789abcdef";
constexpr int channel_backlog = 128;

struct channel_name {
  sockaddr_un storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// An abstract name begins with a zero byte.
channel_name channel_name_of(const region_address& where) {
  channel_name out;
  out.storage.sun_family = AF_UNIX;
  char* at = out.storage.sun_path + 1;
  at = std::copy(channel_prefix.begin(), channel_prefix.end(), at);
  at = std::copy(where.socket_name.begin(), where.socket_name.end(), at);
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                      static_cast<std::size_t>(at - out.storage.sun_path));
  return out;
}

// A full backlog lets `connect` wait as long as a send may take.
void channel_connects_until(int fd, time_point deadline) {
  const auto left = std::max<std::int64_t>(time_left(deadline).count(), 1);
  const timeval limit{left / 1000, (left % 1000) * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

std::string name_of(const region_address& where) {
  return "@" + std::string(channel_prefix) +
         std::string(where.socket_name.data(), where.socket_name.size());
}

std::array<char, 32> random_name() {
  std::array<std::byte, 16> bytes;
  random_bytes(bytes);
  std::array<char, 32> out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto value = std::to_integer<unsigned>(bytes[i]);
    out[2 * i] = channel_digits[value >> 4];
    out[2 * i + 1] = channel_digits[value & 15];
  }
  return out;
}

bool is_well_formed(const region_address& where) noexcept {
  return std::ranges::all_of(
      where.socket_name, [](char c) { return channel_digits.find(c) != std::string_view::npos; });
}

connect_result listen_at(const region_address& where) {
  unique_fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno};
  const auto name = channel_name_of(where);
  if (::bind(fd.get(), name.get(), name.length) != 0) return {{}, errno};
  if (::listen(fd.get(), channel_backlog) != 0) return {{}, errno};
  return {std::move(fd), 0};
}

connect_result connect_to(const region_address& where, time_point deadline) {
  unique_fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno};
  const auto name = channel_name_of(where);
  do {
    channel_connects_until(fd.get(), deadline);
    if (::connect(fd.get(), name.get(), name.length) == 0) {
      if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return {{}, errno};
      return {std::move(fd), 0};
    }
    if (errno == EAGAIN) return {{}, ETIMEDOUT};
    if (errno != EINTR) return {{}, errno};
  } while (time_left(deadline).count() > 0);
  return {{}, ETIMEDOUT};
}

std::optional<process_behind> other_end(int fd) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || length != sizeof who)
    return std::nullopt;
  return process_behind{who.uid, who.pid};
}

bool send(int fd, std::span<const std::byte> packet) noexcept {
  while (true) {
    const auto n = ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<std::size_t>(n) == packet.size();
    if (errno != EINTR) return false;
  }
}

ssize_t receive(int fd, std::span<std::byte> room) noexcept {
  bool reset = false;
  while (true) {
    const auto n = ::recv(fd, room.data(), room.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (n >= 0) return n;
    // Reported once when the other end was closed before it had read all; what it said before is
    // there still.
    if (errno == ECONNRESET && !reset)
      reset = true;
    else if (errno != EINTR)
      return -1;
  }
}

}  // namespace troupe::transport::channel_socket
