#include "troupe/transport/ucx/process_watch.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport::ucx {

process_watch::process_watch() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0)
    throw transport_error(
        with_descriptor_shortage(std::string("epoll_create1 failed: ") + std::strerror(errno)));
}

process_watch::~process_watch() {
  for (const auto& [who, fd] : fds_) close(fd);
  close(epoll_);
}

void process_watch::add(void* who, int pidfd) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = who;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd, &event) != 0) {
    const auto why =
        with_descriptor_shortage(std::string("cannot watch a process: ") + std::strerror(errno));
    close(pidfd);
    throw transport_error(why);
  }
  fds_.emplace(who, pidfd);
}

void process_watch::remove(void* who) {
  const std::lock_guard lock(mutex_);
  const auto at = fds_.find(who);
  if (at == fds_.end()) return;
  // Explicitly: a forked child may hold another descriptor of the same file.
  epoll_ctl(epoll_, EPOLL_CTL_DEL, at->second, nullptr);
  close(at->second);
  fds_.erase(at);
}

std::vector<void*> process_watch::ended() {
  std::array<epoll_event, 64> events;
  const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  std::vector<void*> who;
  for (int i = 0; i < n; ++i) {
    // A copy: an event is packed, and a reference to what is in it would be misaligned.
    void* const one = events[static_cast<std::size_t>(i)].data.ptr;
    who.push_back(one);
  }
  return who;
}

}  // namespace troupe::transport::ucx
