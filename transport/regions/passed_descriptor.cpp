#include "troupe/transport/regions/passed_descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport {

namespace {

// One is expected. The others are received to be closed and counted.
constexpr std::size_t passed_room = 8;

iovec passed_bytes(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

void take_passed(const msghdr& message, std::vector<unique_fd>& out) {
  auto* const all = const_cast<msghdr*>(&message);
  for (auto* part = CMSG_FIRSTHDR(all); part != nullptr; part = CMSG_NXTHDR(all, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int one = -1;
      std::memcpy(&one, CMSG_DATA(part) + i * sizeof one, sizeof one);
      out.emplace_back(one);
    }
  }
}

}  // namespace

bool send_descriptor(int fd, std::span<const std::byte> packet, int passed) noexcept {
  iovec bytes = passed_bytes(packet);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof passed)]{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  auto* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof passed);
  std::memcpy(CMSG_DATA(part), &passed, sizeof passed);
  while (true) {
    const auto n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<std::size_t>(n) == packet.size();
    if (errno != EINTR) return false;
  }
}

received_packet receive_descriptors(int fd, std::span<std::byte> room) {
  received_packet out;
  out.descriptors.reserve(passed_room + 1);  // nothing may throw once there are descriptors
  bool reset = false;
  while (true) {
    iovec bytes = passed_bytes(room);
    alignas(cmsghdr) char control[CMSG_SPACE(passed_room * sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    out.length = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    if (out.length >= 0) {
      out.cut_short = (message.msg_flags & MSG_CTRUNC) != 0;
      take_passed(message, out.descriptors);
      return out;
    }
    out.error = errno;
    if (out.error == ECONNRESET && !reset)
      reset = true;  // as in channel_socket::receive
    else if (out.error != EINTR)
      return out;
  }
}

std::string not_shared_memory(int fd, std::uint64_t size, region_access access) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return std::string("it cannot be examined: ") + std::strerror(errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return std::string("it is no memory file (memfd): ") + std::strerror(errno);
  if ((seals & F_SEAL_SHRINK) == 0) return "it could shrink: F_SEAL_SHRINK is not set";
  const bool writes = access == region_access::write;
  if ((flags & O_ACCMODE) != (writes ? O_RDWR : O_RDONLY))
    return writes ? "it is not open for reading and writing" : "it is not open for reading only";
  struct stat file {};
  if (::fstat(fd, &file) != 0) return std::string("fstat failed: ") + std::strerror(errno);
  if (size == 0 || static_cast<std::uint64_t>(file.st_size) != size)
    return fmt::format("it has {} bytes, not {}", file.st_size, size);
  return {};
}

}  // namespace troupe::transport
