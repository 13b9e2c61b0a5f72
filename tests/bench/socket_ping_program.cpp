// socket-ping: a round trip over a bare TCP connection, with busy polling: what a small call over
// this network costs at least. Rank 1 answers, rank 0 measures and writes FILE:
//   socket-ping --row tcp_call --json FILE
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/bench/timing.hpp"
#include "troupe/transport/system/deadline.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::bench {
namespace {

using namespace std::chrono_literals;

// About what a call without arguments takes.
using message = std::array<std::byte, 128>;

void send_all(int fd, const message& m) {
  if (::send(fd, m.data(), m.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(m.size()))
    throw std::runtime_error("a send failed");
}

bool receive_all(int fd, message& m) {
  for (std::size_t here = 0; here < m.size();) {
    const auto n = ::recv(fd, m.data() + here, m.size() - here, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n > 0)
      here += static_cast<std::size_t>(n);
    else if (errno != EAGAIN && errno != EINTR)
      throw std::runtime_error("a receive failed");
  }
  return true;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

int run(const std::string& row, const std::string& file) {
  const auto deadline = transport::deadline_after(60s);
  const auto where =
      transport::resolve(
          {variable("MASTER_ADDR"), static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT")))},
          deadline)
          .at(0);
  message m{};
  if (variable("RANK") == "0") {
    const auto listener = transport::listen_on(where);
    if (!listener.fd) throw std::runtime_error("cannot listen");
    transport::wait_readable(listener.fd.get(), deadline);
    const transport::unique_fd fd(::accept(listener.fd.get(), nullptr, nullptr));
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    write(file, row, 2, {times_of(call_times([&] {
            send_all(fd.get(), m);
            receive_all(fd.get(), m);
          }))});
    return 0;
  }
  transport::connect_result made;
  while (!(made = transport::connect_to(where, deadline)).fd) {
    if (transport::time_left(deadline) == 0ms) throw std::runtime_error("rank 0 does not listen");
    std::this_thread::sleep_for(10ms);
  }
  while (receive_all(made.fd.get(), m)) send_all(made.fd.get(), m);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  std::string row, file;
  for (int i = 1; i + 1 < argc; i += 2)
    (std::string(argv[i]) == "--row" ? row : file) = argv[i + 1];
  try {
    return troupe::bench::run(row, file);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "socket-ping: {}\n", failure.what());
    return 1;
  }
}
