#include "troupe/transport/system/process_end.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/quiet_thread.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/system/per_process.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

namespace {

[[noreturn]] void end_watch_fails(const std::string& why) {
  throw transport_error("the end of processes cannot be noticed: " + why);
}

int end_watch_opened(int fd, const char* call) {
  if (fd < 0)
    end_watch_fails(
        with_descriptor_shortage(std::string(call) + " failed: " + std::strerror(errno)));
  return fd;
}

// All watches of this process, and the thread that waits for the ends.
class end_watches {
public:
  end_watches()
      : epoll_(end_watch_opened(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        wake_(end_watch_opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
        self_(this_process()) {
    add_to_epoll(wake_.get(), wake_number);
  }

  const process_identity& self() const noexcept { return self_; }

  // Without a descriptor, the process has ended already.
  std::uint64_t add(unique_fd process, std::function<void()> then) {
    const std::lock_guard lock(mutex_);
    if (!started_) start();
    const auto number = next_++;
    const int fd = process.get();
    watched_.emplace(number, watch{std::move(process), std::move(then)});
    try {
      if (fd >= 0) {
        add_to_epoll(fd, number);
      } else {
        over_.push_back(number);
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
      }
    } catch (...) {
      watched_.erase(number);
      throw;
    }
    return number;
  }

  void cancel(std::uint64_t number) {
    watch gone;  // what it owns may do anything as it goes, so not under the lock
    std::unique_lock lock(mutex_);
    if (take(number, gone)) return lock.unlock();
    if (running_ != number || runner_ == std::this_thread::get_id()) return;
    returned_.wait(lock, [&] { return running_ != number; });
  }

private:
  struct watch {
    unique_fd process;
    std::function<void()> then;
  };
  static constexpr std::uint64_t wake_number = 0;

  void add_to_epoll(int fd, std::uint64_t number) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      end_watch_fails(std::string("epoll_ctl failed: ") + std::strerror(errno));
  }

  void start() {
    try {
      // Left alone: this object is never destroyed, and the thread ends with the process.
      start_quiet_thread("troupe-ends", [this] { run(); }).detach();
    } catch (const std::system_error& e) {
      end_watch_fails(std::string("no thread can be started: ") + e.what());
    }
    started_ = true;
  }

  bool take(std::uint64_t number, watch& out) {
    const auto at = watched_.find(number);
    if (at == watched_.end()) return false;
    out = std::move(at->second);
    watched_.erase(at);
    // Explicitly: a forked child may hold another descriptor of the same file.
    if (out.process) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, out.process.get(), nullptr);
    return true;
  }

  void run() {
    std::array<epoll_event, 16> events;
    while (true) {
      const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      if (n < 0 && errno != EINTR) std::this_thread::sleep_for(std::chrono::seconds(1));
      for (int i = 0; i < n; ++i) {
        const auto number = events[static_cast<std::size_t>(i)].data.u64;
        if (number == wake_number)
          call_over();
        else
          call(number);
      }
    }
  }

  void call_over() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
    std::vector<std::uint64_t> now;
    {
      const std::lock_guard lock(mutex_);
      now.swap(over_);
    }
    for (const auto number : now) call(number);
  }

  void call(std::uint64_t number) {
    {
      watch one;
      {
        const std::lock_guard lock(mutex_);
        if (!take(number, one)) return;  // cancelled meanwhile
        running_ = number;
        runner_ = std::this_thread::get_id();
      }
      try {
        one.then();
      } catch (const std::exception& e) {
        log().error("what follows the end of a process has failed: {}", e.what());
      } catch (...) {
        log().error("what follows the end of a process has failed");
      }
    }  // what the function owned is gone as well when `cancel` returns
    const std::lock_guard lock(mutex_);
    running_ = 0;
    returned_.notify_all();
  }

  const unique_fd epoll_;
  const unique_fd wake_;
  const process_identity self_;

  std::mutex mutex_;
  std::condition_variable returned_;
  bool started_ = false;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, watch> watched_;
  std::vector<std::uint64_t> over_;
  std::uint64_t running_ = 0;
  std::thread::id runner_;
};

constinit per_process<end_watches> end_watches_here;

}  // namespace

process_end_watch::process_end_watch(process_end_watch&& other) noexcept
    : number_(std::exchange(other.number_, 0)), why_(std::move(other.why_)), home_(other.home_) {}

process_end_watch& process_end_watch::operator=(process_end_watch&& other) noexcept {
  std::swap(number_, other.number_);
  std::swap(why_, other.why_);
  std::swap(home_, other.home_);
  return *this;
}

process_end_watch::~process_end_watch() { cancel(); }

void process_end_watch::cancel() noexcept {
  const auto mine = std::exchange(number_, 0);
  if (mine != 0 && home_.here()) end_watches_here.get().cancel(mine);
}

process_end_watch on_process_end(const process_identity& who, std::function<void()> then) {
  process_end_watch out;
  auto& all = end_watches_here.get();
  if (who.host != all.self().host)
    out.why_ = "it is on another host";
  else if (who.pid_namespace != all.self().pid_namespace)
    out.why_ = "it is in another process namespace of this host";
  if (!out.why_.empty()) return out;

  unique_fd process;
  try {
    process = unique_fd(watch_process(who, out.why_));
    if (!process) return out;
  } catch (const peer_lost&) {
    // It has ended already.
  }
  out.number_ = all.add(std::move(process), std::move(then));
  return out;
}

}  // namespace troupe::transport
