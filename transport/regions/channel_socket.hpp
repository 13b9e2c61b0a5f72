#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "troupe/transport/regions/region_address.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// Sockets of one host that keep the limits of packets (SOCK_SEQPACKET). Their names are abstract:
/// no file, so nothing is left when a process is killed.
namespace channel_socket {

/// "@troupe-memory-<name>", as ss(8) prints it.
std::string name_of(const region_address& where);

/// A name that nobody has.
std::array<char, 32> random_name();

/// Has the address the form of those that `random_name` makes? To be asked before other functions
/// get an address that was received.
bool is_well_formed(const region_address& where) noexcept;

/// Non-blocking; none, with an errno.
connect_result listen_at(const region_address& where);
connect_result connect_to(const region_address& where, time_point deadline);

/// The process at the other end as it was when it connected or began to listen. `pid` is 0 when it
/// is in a process namespace that this one cannot see.
struct process_behind {
  uid_t user = 0;
  pid_t pid = 0;
};
std::optional<process_behind> other_end(int fd) noexcept;

/// Sends one packet without waiting. False, with errno set, when it was not sent.
bool send(int fd, std::span<const std::byte> packet) noexcept;

/// The length of the packet that has come, which is more than `room` where it did not fit; 0: the
/// other end is closed; -1, with errno set, else. Descriptors sent along are closed unseen.
ssize_t receive(int fd, std::span<std::byte> room) noexcept;

}  // namespace channel_socket

}  // namespace troupe::transport
