#include "troupe/actors/scheduler/network_sleep.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace troupe {

namespace {

void check_wait_set(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void network_sleep::open(int event_fd) {
  event_fd_ = event_fd;
  epoll_ = transport::unique_fd(epoll_create1(EPOLL_CLOEXEC));
  check_wait_set(epoll_.get(), "epoll_create1");
  rouse_ = transport::unique_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  check_wait_set(rouse_.get(), "eventfd");
  for (const int fd : {event_fd_, rouse_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    check_wait_set(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
}

bool network_sleep::wait() {
  epoll_event events[2];
  const int count = epoll_wait(epoll_.get(), events, 2, -1);
  std::uint64_t calls = 0;
  for (int i = 0; i < count; ++i)
    if (events[i].data.fd == rouse_.get()) [[maybe_unused]]
      const auto got = read(rouse_.get(), &calls, sizeof calls);
  return count > 0;
}

void network_sleep::mute() {
  if (muted()) return;
  const std::lock_guard guard(mutex_);
  if (!muted_.exchange(true)) watch(false);
}

void network_sleep::unmute() {
  if (!muted()) return;
  const std::lock_guard guard(mutex_);
  if (muted_.exchange(false)) watch(true);
}

void network_sleep::watch(bool on) {
  epoll_event event{};
  if (on) event.events = EPOLLIN;
  event.data.fd = event_fd_;
  check_wait_set(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, event_fd_, &event), "epoll_ctl");
}

void network_sleep::rouse() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = write(rouse_.get(), &one, sizeof one);
}

}  // namespace troupe
