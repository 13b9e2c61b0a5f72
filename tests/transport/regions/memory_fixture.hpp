#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/regions/channel_socket.hpp"
#include "troupe/transport/regions/descriptor_channel.hpp"
#include "troupe/transport/regions/mapped_region.hpp"
#include "troupe/transport/regions/passed_descriptor.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport::test {

inline time_point soon(std::chrono::milliseconds time = std::chrono::seconds(5)) {
  return std::chrono::steady_clock::now() + time;
}

/// Memory that can be written here, with an id.
class test_memory {
public:
  static constexpr std::size_t default_size = 64 * 1024;

  explicit test_memory(std::size_t size = default_size, int seals = F_SEAL_SHRINK | F_SEAL_GROW)
      : size_(size), fd_(memfd_create("troupe-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    random_bytes(id_);
    if (!fd_ || ftruncate(fd_.get(), static_cast<off_t>(size)) != 0 ||
        fcntl(fd_.get(), F_ADD_SEALS, seals) != 0)
      throw std::runtime_error("no memory file");
    data_ = static_cast<std::byte*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  }
  ~test_memory() { munmap(data_, size_); }
  test_memory(const test_memory&) = delete;
  test_memory& operator=(const test_memory&) = delete;

  unique_fd open_again(int flags = O_RDONLY) const {
    const auto path = "/proc/self/fd/" + std::to_string(fd_.get());
    return unique_fd(open(path.c_str(), flags | O_CLOEXEC));
  }
  std::byte* data() { return data_; }
  std::size_t size() const { return size_; }
  const std::array<std::byte, 16>& id() const { return id_; }

private:
  std::size_t size_;
  std::array<std::byte, 16> id_;
  unique_fd fd_;
  std::byte* data_ = nullptr;
};

/// Memory, and who hands it out.
struct served_memory {
  explicit served_memory(const job_secret& secret)
      : server(memory.open_again(), memory.size(), memory.id(), secret) {}
  test_memory memory;
  descriptor_server server;
};

/// The same, for writing too.
struct writable_memory {
  explicit writable_memory(const job_secret& secret)
      : server(memory.open_again(), memory.size(), memory.id(), secret, memory.open_again(O_RDWR)) {
  }
  test_memory memory;
  descriptor_server server;
};

inline std::size_t open_descriptors() {
  namespace fs = std::filesystem;
  // The one that lists them is one of them.
  return static_cast<std::size_t>(
             std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator())) -
         1;
}

/// Does `condition` become true? Threads that close descriptors need a moment.
inline bool comes_true(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(5)) {
  const auto end = soon(limit);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// At construction and at the end of a test there shall be as many.
class same_descriptors {
public:
  bool now() const {
    return comes_true([&] { return open_descriptors() == before_; });
  }

private:
  const std::size_t before_ = open_descriptors();
};

/// While it exists, this process can open just so many descriptors more.
class few_descriptors {
public:
  explicit few_descriptors(std::size_t left) {
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("no limit");
    auto few = before_;
    few.rlim_cur = 256;
    if (descriptors().open > 200 || setrlimit(RLIMIT_NOFILE, &few) != 0)
      throw std::runtime_error("descriptors cannot be counted down from 256 here");
    for (int fd = open_one(); fd >= 0; fd = open_one()) used_.emplace_back(fd);
    used_.resize(used_.size() - left);
  }
  ~few_descriptors() {
    used_.clear();
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;

private:
  static int open_one() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

  rlimit before_{};
  std::vector<unique_fd> used_;
};

/// What `f` throws; empty: nothing.
inline std::string error_of_call(const std::function<void()>& f) {
  try {
    f();
  } catch (const transport_error& e) {
    return e.what();
  }
  return {};
}

template <class Packet>
std::span<const std::byte> bytes_of(const Packet& packet) {
  return std::as_bytes(std::span(&packet, 1));
}

/// A client that says what it likes.
class raw_client {
public:
  explicit raw_client(const region_address& where)
      : fd_(channel_socket::connect_to(where, soon()).fd) {}

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }

  bool say(std::span<const std::byte> bytes) const {
    return channel_socket::send(fd_.get(), bytes);
  }

  /// The next packet; empty: the connection was closed, or there is none in time.
  std::vector<std::byte> hear(std::chrono::milliseconds limit = std::chrono::seconds(5)) const {
    std::vector<std::byte> room(256);
    if (!wait_readable(fd_.get(), soon(limit))) return {};
    const auto n = channel_socket::receive(fd_.get(), room);
    room.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return room;
  }

  template <class Packet>
  bool hear(Packet& out) const {
    const auto in = hear();
    if (in.size() != sizeof out) return false;
    std::memcpy(&out, in.data(), sizeof out);
    return true;
  }

  bool is_refused(refusal_cause why) const {
    descriptor_handshake::refusal in{};
    return hear(in) && descriptor_handshake::is_refusal(in) && in.why == why && hear().empty();
  }

private:
  unique_fd fd_;
};

/// A server that does with each connection what `script` does.
class raw_server {
public:
  explicit raw_server(std::function<void(int)> script) : script_(std::move(script)) {
    address_.size = test_memory::default_size;
    random_bytes(address_.id);
    address_.socket_name = channel_socket::random_name();
    listener_ = channel_socket::listen_at(address_).fd;
    if (!listener_) throw std::runtime_error("no socket");
    thread_ = std::thread([this] { run(); });
  }
  ~raw_server() {
    stop_ = true;
    thread_.join();
  }

  const region_address& address() const { return address_; }

private:
  void run() {
    while (!stop_) {
      if (!wait_readable(listener_.get(), soon(std::chrono::milliseconds(10)))) continue;
      const unique_fd one(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (one) script_(one.get());
    }
  }

  const std::function<void(int)> script_;
  region_address address_;
  unique_fd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// A packet, waited for.
template <class Packet>
bool take_packet(int fd, Packet& out) {
  return wait_readable(fd, soon()) &&
         channel_socket::receive(fd, std::as_writable_bytes(std::span(&out, 1))) == sizeof out;
}

}  // namespace troupe::transport::test
