#include "troupe/transport/store/tcp/tcp_store_server.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/quiet_thread.hpp"
#include "troupe/transport/store/tcp/tcp_store_server_internal.hpp"

namespace troupe::transport {

namespace {

constexpr std::uint64_t listener_id = 0;  // connections are numbered from 1
constexpr int max_accepts_at_once = 64;

// How long no connection is accepted after the process ran out of descriptors, unless a client
// leaves before.
constexpr std::chrono::milliseconds accept_pause{500};

}  // namespace

tcp_store_server::impl::impl(unique_fd listener, const job_secret& secret, const limits& l,
                             store_contents contents)
    : limits_(l),
      secret_(secret),
      listener_(std::move(listener)),
      port_(local_address(listener_.get()).port()),
      waiters_(l.stored_bytes, l.entries) {
  for (auto& one : contents) waiters_.put(one.first, std::move(one.second));
  random_bytes(number_);
  poller_.add(listener_.get(), listener_id, EPOLLIN);
  thread_ = start_quiet_thread("troupe-store", [this] { run(); });
}

tcp_store_server::impl::~impl() {
  stop_ = true;
  poller_.wake();
  thread_.join();
}

void tcp_store_server::impl::drain(std::chrono::milliseconds limit) {
  draining_ = true;
  poller_.wake();
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_after(limit), [&] { return finished_; });
  stop_ = true;
  poller_.wake();
}

void tcp_store_server::impl::run() {
  while (!stop_ && !(draining_ && clients_ == 0)) {
    if (draining_) stop_listening();
    for (const auto& event : poller_.wait(next_timeout()))
      handle_or_drop(event.data.u64, event.events);
    expire();
    serve_due();
  }
  stop_listening();
  while (!connections_.empty()) drop(connections_.begin()->first);
  std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

int tcp_store_server::impl::next_timeout() const {
  if (!due_.empty() && queued_ <= limits_.reply_bytes) return 0;
  auto next = listen_again_at_.value_or(time_point::max());
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  if (next == time_point::max()) return -1;
  return static_cast<int>(std::min<std::int64_t>(time_left(next).count(), 60'000));
}

void tcp_store_server::impl::stop_listening() {
  listener_ = unique_fd();
  while (!strangers_.empty()) drop(*strangers_.begin());
}

// Memory may run out for one client; the others are not affected.
void tcp_store_server::impl::handle_or_drop(std::uint64_t id, std::uint32_t events) {
  try {
    handle(id, events);
  } catch (const std::exception& e) {
    failed(id, e);
  }
}

void tcp_store_server::impl::failed(std::uint64_t id, const std::exception& e) {
  log().error("the store dropped a connection: {}", e.what());
  if (connections_.contains(id)) drop(id);
}

void tcp_store_server::impl::handle(std::uint64_t id, std::uint32_t events) {
  if (id == listener_id) return accept_all();
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // dropped by an earlier event
  auto& c = *found->second;
  if (c.at == stage::waiting) return drop(id);  // only its end is watched then
  if (c.at == stage::replying && !send_reply(c)) return;
  if (c.at == stage::replying) {  // it takes no more at present, or has gone
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) drop(id);
    return;
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) read_from(c);
}

void tcp_store_server::impl::accept_all() {
  for (int i = 0; i < max_accepts_at_once && listener_; ++i) {
    unique_fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        return make_room(errno);
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (strangers_.size() >= limits_.strangers) refuse(*strangers_.begin(), "was one of too many");
    const auto id = next_id_++;
    auto c = std::make_unique<connection>(id, std::move(fd), secret_, number_);
    poller_.add(c->fd.get(), id, c->events = EPOLLIN);
    auto& added = *connections_.emplace(id, std::move(c)).first->second;
    strangers_.insert(id);
    set_timer(added, deadline_after(limits_.proof_time));
    client_count_.accepted();
  }
}

// Out of descriptors: strangers are dropped first; without any, no connection is accepted until a
// client leaves, or the rest of the process has closed some.
void tcp_store_server::impl::make_room(int error) {
  if (!strangers_.empty()) return refuse(*strangers_.begin(), "was one of too many");
  if (std::has_single_bit(++pauses_))
    log().warn("the store has {} clients and can accept no more at present: {}{}", clients_,
               std::strerror(error), error == EMFILE ? " (raise the limit with ulimit -n)" : "");
  poller_.change(listener_.get(), listener_id, 0);
  listen_again_at_ = deadline_after(accept_pause);
}

void tcp_store_server::impl::listen_again() {
  if (!listen_again_at_) return;
  listen_again_at_.reset();
  if (listener_) poller_.change(listener_.get(), listener_id, EPOLLIN);
}

void tcp_store_server::impl::expire() {
  const auto now = std::chrono::steady_clock::now();
  if (listen_again_at_ && *listen_again_at_ <= now) listen_again();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto id = timers_.begin()->second;
    auto& c = *connections_.at(id);
    if (c.at == stage::waiting) {
      set_timer(c, std::nullopt);
      serve_or_drop(c, true);
    } else if (c.is_stranger()) {
      refuse(id, "gave no proof in time", c.at == stage::proof);
    } else {
      log().warn("the store dropped {}, which has stalled", to_string(c.peer));
      drop(id);
    }
  }
}

void tcp_store_server::impl::set_timer(connection& c, std::optional<time_point> when) {
  if (c.timer) timers_.erase({*c.timer, c.id});
  c.timer = when;
  if (when) timers_.insert({*when, c.id});
}

void tcp_store_server::impl::update_events(connection& c) {
  const std::uint32_t events = c.at == stage::waiting    ? EPOLLRDHUP
                               : c.at == stage::replying ? EPOLLOUT | EPOLLRDHUP
                                                         : EPOLLIN;
  if (events != c.events) poller_.change(c.fd.get(), c.id, c.events = events);
}

void tcp_store_server::impl::refuse(std::uint64_t id, const char* why, bool wrong_secret) {
  client_count_.refused(connections_.at(id)->peer, why, wrong_secret);
  drop(id);
}

void tcp_store_server::impl::drop(std::uint64_t id) {
  const auto found = connections_.find(id);
  auto& c = *found->second;
  set_timer(c, std::nullopt);
  waiters_.forget(id);
  queued_ -= c.output_left();
  if (strangers_.erase(id) == 0) client_count_.has_clients(--clients_);
  connections_.erase(found);
  listen_again();
}

tcp_store_server::tcp_store_server(unique_fd listener, const job_secret& secret, const limits& l,
                                   store_contents contents)
    : impl_(std::make_unique<impl>(std::move(listener), secret, l, std::move(contents))) {}

tcp_store_server::~tcp_store_server() {
  if (!home_.here()) (void)impl_.release();  // its thread is the parent's
}

std::uint16_t tcp_store_server::port() const noexcept { return impl_->port(); }

tcp_store_server::counts tcp_store_server::count() const { return impl_->count(); }

void tcp_store_server::drain(std::chrono::milliseconds limit) { impl_->drain(limit); }

}  // namespace troupe::transport
