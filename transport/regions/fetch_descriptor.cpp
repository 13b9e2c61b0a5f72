#include "troupe/transport/regions/fetch_descriptor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/regions/channel_socket.hpp"
#include "troupe/transport/regions/descriptor_handshake.hpp"
#include "troupe/transport/regions/passed_descriptor.hpp"
#include "troupe/transport/system/deadline.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport {

namespace {

using fetch_talk = descriptor_handshake;

constexpr std::chrono::milliseconds fetch_first_pause{2};
constexpr std::chrono::milliseconds fetch_longest_pause{50};

// One fetch, with as many connections as it takes.
class descriptor_fetch {
public:
  descriptor_fetch(const region_address& where, const job_secret& secret, time_point deadline,
                   region_access access)
      : where_(where), key_(fetch_talk::key(secret)), deadline_(deadline), access_(access) {}

  unique_fd run() {
    for (auto pause = fetch_first_pause;; pause = std::min(2 * pause, fetch_longest_pause)) {
      if (auto got = attempt()) return std::move(*got);
      if (time_left(deadline_) <= pause) fail("asking until the deadline", later_);
      std::this_thread::sleep_for(pause);
    }
  }

private:
  // Nothing: the server may have time later.
  std::optional<unique_fd> attempt() {
    const auto connected = connect();
    const int fd = connected.get();
    fetch_talk talk(key_, where_);
    // If this fails, what there is to read says why.
    const auto hello = talk.greet(access_);
    channel_socket::send(fd, std::as_bytes(std::span(&hello, 1)));
    fetch_talk::challenge challenge;
    if (!receive(fd, "waiting for the server's proof", challenge)) return std::nullopt;
    fetch_talk::answer answer;
    if (!talk.meet(challenge, answer))
      fail("checking the server's proof", "the server does not have the job's secret");
    channel_socket::send(fd, std::as_bytes(std::span(&answer, 1)));
    return take(fd);
  }

  unique_fd connect() const {
    auto connected = channel_socket::connect_to(where_, deadline_);
    if (connected.error == ECONNREFUSED)
      fail("connecting",
           "nobody listens: its owner has ended, or is in another network namespace (two "
           "containers, for example)");
    if (connected.error == ETIMEDOUT) fail("connecting", "it was not accepted in time");
    if (!connected.fd) fail("connecting", with_descriptor_shortage(std::strerror(connected.error)));
    const auto owner = channel_socket::other_end(connected.fd.get());
    if (!owner) fail("checking the server's user", std::strerror(errno));
    if (owner->user != ::geteuid())
      fail("checking the server's user",
           fmt::format("it belongs to user {}, not {}", owner->user, ::geteuid()));
    return std::move(connected.fd);
  }

  // False: not now.
  bool receive(int fd, const char* step, fetch_talk::challenge& out) {
    std::array<std::byte, sizeof out> room;
    ssize_t n = -1;
    do {
      wait(fd, step);
      n = channel_socket::receive(fd, room);
    } while (n < 0 && errno == EAGAIN);
    if (n != sizeof out) return refused(step, n, room);
    std::memcpy(&out, room.data(), sizeof out);
    return true;
  }

  std::optional<unique_fd> take(int fd) {
    static constexpr const char* step = "waiting for the descriptor";
    std::array<std::byte, sizeof(fetch_talk::grant)> room;
    received_packet in;
    do {
      wait(fd, step);
      in = receive_descriptors(fd, room);
    } while (in.length < 0 && in.error == EAGAIN);
    if (in.length != sizeof(fetch_talk::grant)) {
      refused(step, in.length, room);
      return std::nullopt;
    }
    static constexpr const char* check = "checking the descriptor";
    if (in.cut_short && in.descriptors.empty())
      fail(check, with_descriptor_shortage("it could not be received"));
    if (in.cut_short || in.descriptors.size() > 1) fail(check, "the server sent more than one");
    if (in.descriptors.empty()) fail(check, "the server sent none");
    fetch_talk::grant granted;
    std::memcpy(&granted, room.data(), sizeof granted);
    if (granted.id != where_.id || granted.size != where_.size)
      fail(check, "the server sent one of other memory");
    if (const auto why = not_shared_memory(in.descriptors[0].get(), where_.size, access_);
        !why.empty())
      fail(check, why);
    return std::move(in.descriptors[0]);
  }

  void wait(int fd, const char* step) const {
    if (!wait_readable(fd, deadline_)) fail(step, "the server did not answer in time");
  }

  // Returns false if it is worth another attempt.
  bool refused(const char* step, ssize_t n, std::span<const std::byte> room) {
    if (n <= 0) {
      // Before it could say that it is busy, or it has just ended, which the next attempt finds.
      later_ = "the server closed the connection";
      return false;
    }
    fetch_talk::refusal in;
    if (n != sizeof in || room.size() < sizeof in) fail(step, "the server sent something else");
    std::memcpy(&in, room.data(), sizeof in);
    if (!fetch_talk::is_refusal(in)) fail(step, "the server sent something else");
    later_ = std::string("the server refuses: ") + to_string(in.why);
    if (in.why != refusal_cause::busy && in.why != refusal_cause::too_slow) fail(step, later_);
    return false;
  }

  [[noreturn]] void fail(const char* step, const std::string& reason) const {
    fail_to_fetch(where_, step, reason);
  }

  const region_address where_;
  const job_secret key_;
  const time_point deadline_;
  const region_access access_;
  std::string later_;
};

}  // namespace

unique_fd fetch_descriptor(const region_address& where, const job_secret& secret,
                           time_point deadline, region_access access) {
  if (!channel_socket::is_well_formed(where))
    throw transport_error("the memory of another process cannot be mapped: its address is damaged");
  return descriptor_fetch(where, secret, deadline, access).run();
}

void fail_to_fetch(const region_address& where, const char* step, const std::string& reason) {
  throw transport_error(fmt::format("the memory of another process ({}) cannot be mapped: {}: {}",
                                    channel_socket::name_of(where), step, reason));
}

}  // namespace troupe::transport
