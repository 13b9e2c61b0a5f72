#include "troupe/transport/store/tcp/tcp_store_poller.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

constexpr std::uint64_t signal_id = ~std::uint64_t{0};

}  // namespace

tcp_store_poller::tcp_store_poller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !signal_)
    throw store_error(fmt::format("the store cannot be served: {}", std::strerror(errno)));
  add(signal_.get(), signal_id, EPOLLIN);
}

void tcp_store_poller::add(int fd, std::uint64_t id, std::uint32_t events) {
  control(EPOLL_CTL_ADD, fd, id, events);
}

void tcp_store_poller::change(int fd, std::uint64_t id, std::uint32_t events) {
  control(EPOLL_CTL_MOD, fd, id, events);
}

void tcp_store_poller::control(int operation, int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    throw store_error(fmt::format("the store cannot watch a socket: {}", std::strerror(errno)));
}

std::span<const epoll_event> tcp_store_poller::wait(int timeout_ms) {
  const int n =
      epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), timeout_ms);
  const auto end = events_.begin() + std::max(n, 0);
  const auto kept = std::remove_if(events_.begin(), end,
                                   [](const epoll_event& e) { return e.data.u64 == signal_id; });
  if (kept != end) {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto size = read(signal_.get(), &ignored, sizeof ignored);
  }
  return {events_.begin(), kept};
}

void tcp_store_poller::wake() noexcept {
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the thread is woken already.
  [[maybe_unused]] const auto n = write(signal_.get(), &one, sizeof one);
}

}  // namespace troupe::transport
