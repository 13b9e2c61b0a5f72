#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "troupe/transport/regions/channel_socket.hpp"
#include "troupe/transport/regions/descriptor_channel.hpp"

namespace troupe::transport {

/// The thread of a descriptor_server, and what it knows of each connection.
class descriptor_server::impl {
public:
  impl(unique_fd read_only, std::uint64_t size, std::array<std::byte, 16> id,
       const job_secret& secret, unique_fd writable);
  ~impl();

  const region_address& address() const noexcept { return address_; }
  descriptor_counts counts() const noexcept;

private:
  struct connection {
    unique_fd fd;
    channel_socket::process_behind who;
    time_point until;
    descriptor_handshake talk;
    bool challenged = false;
  };
  // One line tells of many: of the same cause there is one in a while.
  struct told {
    time_point last{};
    std::uint64_t since = 0;
  };

  void run();
  std::size_t list_sockets(time_point now);
  int timeout(time_point now) const;
  void serve(connection& c);
  void read_hello(connection& c);
  void read_answer(connection& c);
  void refuse(connection& c, refusal_cause why);
  void end_slow(time_point now);
  void accept_some();
  bool accept_one();
  void pause_accepting(int error);
  void make_room();
  void tell(refusal_cause why, const channel_socket::process_behind& who);

  const job_secret key_;
  region_address address_;
  unique_fd served_;
  unique_fd writable_;  // or none
  unique_fd listener_;
  unique_fd wake_;
  std::atomic<bool> stop_{false};

  // Of the thread alone, the oldest first.
  std::vector<connection> connections_;
  std::vector<pollfd> polled_;
  time_point paused_until_{};
  bool shortage_told_ = false;
  std::array<told, refusal_causes> told_{};

  std::atomic<std::uint64_t> served_count_{0};
  std::atomic<std::uint64_t> shortages_{0};
  std::array<std::atomic<std::uint64_t>, refusal_causes> refused_{};

  std::thread thread_;
};

}  // namespace troupe::transport
