#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace troupe::test {

/// A port of the loopback interface on which this process and its children may listen, and which
/// nobody else is given while it lives: a socket that does not listen has it, and all who listen
/// set SO_REUSEADDR. Connections to it are refused until somebody listens. Throws
/// std::system_error.
inline std::uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // closed by the process's end
  const int on = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&where), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    throw std::system_error(errno, std::generic_category(), "no free port");
  return ntohs(where.sin_port);
}

}  // namespace troupe::test
