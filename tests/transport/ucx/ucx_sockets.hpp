#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <vector>

namespace troupe::transport::test {

/// This process' connected TCP sockets.
inline std::vector<int> tcp_connections() {
  std::vector<int> found;
  DIR* fds = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(fds)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_in other{};
    socklen_t size = sizeof other;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&other), &size) == 0 &&
        other.sin_family == AF_INET)
      found.push_back(fd);
  }
  closedir(fds);
  return found;
}

/// Breaks them all, as a middlebox or an administrator would; how many there were. Pre: no other
/// thread opens or closes sockets.
inline std::size_t break_tcp_connections() {
  const auto fds = tcp_connections();
  for (const int fd : fds) shutdown(fd, SHUT_RDWR);
  return fds.size();
}

}  // namespace troupe::transport::test
