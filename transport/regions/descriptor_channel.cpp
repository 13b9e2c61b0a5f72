#include "troupe/transport/regions/descriptor_channel.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string>
#include <system_error>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/quiet_thread.hpp"
#include "troupe/transport/regions/descriptor_channel_internal.hpp"
#include "troupe/transport/regions/passed_descriptor.hpp"
#include "troupe/transport/system/deadline.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport {

namespace {

constexpr std::chrono::seconds channel_patience{1};
// While no connection can be accepted. Those that wait are kept by the system.
constexpr std::chrono::milliseconds channel_pause{100};
// Fewer than connections, so that each is served at least once before others take its place.
constexpr int channel_accepts_at_once = 8;
constexpr std::chrono::seconds channel_quiet{10};

std::size_t channel_index(refusal_cause why) { return static_cast<std::size_t>(why) - 1; }

[[noreturn]] void channel_fails(const std::string& what) {
  throw transport_error("memory cannot be shared with other processes: " + what);
}

[[noreturn]] void channel_fails_in(const char* call, int error) {
  channel_fails(with_descriptor_shortage(std::string(call) + " failed: " + std::strerror(error)));
}

template <class Packet>
std::span<const std::byte> channel_bytes(const Packet& packet) {
  return std::as_bytes(std::span(&packet, 1));
}

}  // namespace

std::uint64_t descriptor_counts::refused() const noexcept {
  return std::accumulate(by_cause.begin(), by_cause.end(), std::uint64_t{0});
}

std::uint64_t descriptor_counts::refused(refusal_cause why) const noexcept {
  return by_cause[channel_index(why)];
}

descriptor_server::descriptor_server(unique_fd read_only, std::uint64_t size,
                                     std::array<std::byte, 16> id, const job_secret& secret,
                                     unique_fd writable)
    : impl_(std::make_unique<impl>(std::move(read_only), size, id, secret, std::move(writable))) {}

descriptor_server::~descriptor_server() {
  if (!home_.here()) (void)impl_.release();  // its thread is the parent's
}

const region_address& descriptor_server::address() const noexcept { return impl_->address(); }

descriptor_counts descriptor_server::counts() const noexcept { return impl_->counts(); }

descriptor_server::impl::impl(unique_fd read_only, std::uint64_t size, std::array<std::byte, 16> id,
                              const job_secret& secret, unique_fd writable)
    : key_(descriptor_handshake::key(secret)),
      address_{id, size, channel_socket::random_name()},
      served_(std::move(read_only)),
      writable_(std::move(writable)) {
  auto why = not_shared_memory(served_.get(), size, region_access::read);
  if (why.empty() && writable_)
    why = not_shared_memory(writable_.get(), size, region_access::write);
  if (!why.empty()) channel_fails(why);
  auto listening = channel_socket::listen_at(address_);
  if (!listening.fd) channel_fails_in("the socket", listening.error);
  listener_ = std::move(listening.fd);
  wake_ = unique_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) channel_fails_in("eventfd", errno);
  connections_.reserve(most_connections);
  polled_.reserve(most_connections + 2);
  try {
    thread_ = start_quiet_thread("troupe-memory", [this] { run(); });
  } catch (const std::system_error& e) {
    channel_fails(std::string("no thread can be started: ") + e.what());
  }
}

descriptor_server::impl::~impl() {
  stop_ = true;
  const std::uint64_t one = 1;
  // The counter is 0, so this cannot fail.
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

descriptor_counts descriptor_server::impl::counts() const noexcept {
  descriptor_counts out;
  out.served = served_count_.load(std::memory_order_relaxed);
  out.shortages = shortages_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < refusal_causes; ++i)
    out.by_cause[i] = refused_[i].load(std::memory_order_relaxed);
  return out;
}

void descriptor_server::impl::run() {
  while (!stop_) {
    const auto now = std::chrono::steady_clock::now();
    const auto others = list_sockets(now);
    if (::poll(polled_.data(), polled_.size(), timeout(now)) < 0) {
      // Out of kernel memory, where it is no signal: it must not spin.
      if (errno != EINTR) std::this_thread::sleep_for(channel_pause);
      continue;
    }
    for (std::size_t i = others; i < polled_.size(); ++i)
      if (polled_[i].revents != 0) serve(connections_[i - others]);
    end_slow(std::chrono::steady_clock::now());
    std::erase_if(connections_, [](const connection& c) { return !c.fd; });
    if (polled_[1].revents != 0) accept_some();
  }
}

// The connections follow those whose number is returned.
std::size_t descriptor_server::impl::list_sockets(time_point now) {
  polled_.clear();
  polled_.push_back({wake_.get(), POLLIN, 0});
  polled_.push_back({now < paused_until_ ? -1 : listener_.get(), POLLIN, 0});
  const auto others = polled_.size();
  for (const auto& c : connections_) polled_.push_back({c.fd.get(), POLLIN, 0});
  return others;
}

// In milliseconds; -1: until something comes.
int descriptor_server::impl::timeout(time_point now) const {
  auto next = time_point::max();
  if (now < paused_until_) next = paused_until_;
  if (!connections_.empty()) next = std::min(next, connections_.front().until);
  return next == time_point::max() ? -1 : static_cast<int>(time_left(next).count());
}

void descriptor_server::impl::serve(connection& c) {
  if (c.challenged)
    read_answer(c);
  else
    read_hello(c);
}

void descriptor_server::impl::read_hello(connection& c) {
  descriptor_handshake::hello in;
  const auto n = channel_socket::receive(c.fd.get(), std::as_writable_bytes(std::span(&in, 1)));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return refuse(c, refusal_cause::left);
  if (n != sizeof in) return refuse(c, refusal_cause::malformed);
  refusal_cause why{};
  if (!c.talk.read(in, why)) return refuse(c, why);
  if (c.talk.wanted() == region_access::write && !writable_)
    return refuse(c, refusal_cause::read_only);
  if (!channel_socket::send(c.fd.get(), channel_bytes(c.talk.respond())))
    return refuse(c, refusal_cause::left);
  c.challenged = true;
}

void descriptor_server::impl::read_answer(connection& c) {
  descriptor_handshake::answer in;
  const auto n = channel_socket::receive(c.fd.get(), std::as_writable_bytes(std::span(&in, 1)));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return refuse(c, refusal_cause::left);
  if (n != sizeof in) return refuse(c, refusal_cause::malformed);
  if (!c.talk.admit(in)) return refuse(c, refusal_cause::no_secret);
  const descriptor_handshake::grant granted{address_.id, address_.size};
  const auto& wanted = c.talk.wanted() == region_access::write ? writable_ : served_;
  if (!send_descriptor(c.fd.get(), channel_bytes(granted), wanted.get()))
    return refuse(c, errno == EPIPE ? refusal_cause::left : refusal_cause::not_sent);
  served_count_.fetch_add(1, std::memory_order_relaxed);
  c.fd.reset();  // what was sent can be read still
}

// Closes the connection; the entry goes later.
void descriptor_server::impl::refuse(connection& c, refusal_cause why) {
  if (why != refusal_cause::left)
    channel_socket::send(c.fd.get(), channel_bytes(descriptor_handshake::refuse(why)));
  c.fd.reset();
  tell(why, c.who);
}

void descriptor_server::impl::end_slow(time_point now) {
  for (auto& c : connections_)
    if (c.fd && c.until <= now) refuse(c, refusal_cause::too_slow);
}

void descriptor_server::impl::accept_some() {
  for (int i = 0; i < channel_accepts_at_once; ++i)
    if (!accept_one()) return;
}

bool descriptor_server::impl::accept_one() {
  unique_fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) return true;
    if (error != EAGAIN) pause_accepting(error);
    return false;
  }
  shortage_told_ = false;
  const auto who = channel_socket::other_end(fd.get());
  if (!who || who->user != ::geteuid()) {
    fd.reset();  // at once: it gets not even a refusal
    tell(refusal_cause::other_user, who.value_or(channel_socket::process_behind{}));
    return true;
  }
  if (connections_.size() == most_connections) make_room();
  connections_.push_back({std::move(fd), *who, std::chrono::steady_clock::now() + channel_patience,
                          descriptor_handshake(key_, address_)});
  return true;
}

void descriptor_server::impl::pause_accepting(int error) {
  paused_until_ = std::chrono::steady_clock::now() + channel_pause;
  shortages_.fetch_add(1, std::memory_order_relaxed);
  if (std::exchange(shortage_told_, true)) return;
  log().warn("processes that ask for this one's memory must wait: {}",
             with_descriptor_shortage(std::string("accept failed: ") + std::strerror(error)));
}

// The one that has said least gives way, the oldest of them.
void descriptor_server::impl::make_room() {
  auto one = std::ranges::find(connections_, false, &connection::challenged);
  if (one == connections_.end()) one = connections_.begin();
  refuse(*one, refusal_cause::busy);
  connections_.erase(one);
}

void descriptor_server::impl::tell(refusal_cause why, const channel_socket::process_behind& who) {
  refused_[channel_index(why)].fetch_add(1, std::memory_order_relaxed);
  auto& t = told_[channel_index(why)];
  const auto now = std::chrono::steady_clock::now();
  if (t.last != time_point{} && now - t.last < channel_quiet) {
    ++t.since;
    return;
  }
  const auto more = t.since == 0 ? std::string() : fmt::format("; {} more before", t.since);
  log().warn("process {} of user {} did not get this one's memory: {}{}", who.pid, who.user,
             to_string(why), more);
  t = {now, 0};
}

}  // namespace troupe::transport
