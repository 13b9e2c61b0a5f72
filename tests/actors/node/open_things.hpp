#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// What others can get at of a process without its leave, as the kernel reports it.

/// Addresses on which it listens for TCP, over IPv4 and IPv6.
std::vector<std::pair<sockaddr_storage, socklen_t>> listening_of(int pid);

/// Can only this host reach it?
bool is_loopback(const sockaddr_storage& address);

/// Its sockets of the host alone that have a name.
std::vector<std::pair<sockaddr_un, socklen_t>> local_sockets_of(int pid);

/// Ids of the segments of System V that it has made.
std::vector<int> system_v_segments_of(int pid);

/// Everything under /proc by which its memory and files can be opened.
std::vector<std::string> ways_to_memory_of(int pid);

}  // namespace troupe::test
