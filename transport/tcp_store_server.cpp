#include "transport/tcp_store_server.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "messages/error.hpp"
#include "messages/log.hpp"
#include "transport/store_desk.hpp"
#include "transport/tcp_store_connection.hpp"

namespace troupe::transport {

namespace {

constexpr std::uint64_t listener_id = 0;
constexpr std::uint64_t signal_id = 1;
constexpr int max_accepts_at_once = 64;
constexpr int max_requests_at_once = 16;

using connection = tcp_store_connection;
using stage = connection::stage;
using progress = connection::progress;

}  // namespace

/// All but `counts_`, `stop_`, `draining_` and `finished_` belongs to the thread.
class tcp_store_server::impl {
public:
  impl(unique_fd listener, const job_secret& secret, const limits& l, store_contents contents)
      : limits_(l),
        secret_(secret),
        listener_(std::move(listener)),
        port_(local_address(listener_.get()).port()),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        desk_(l.stored_bytes) {
    if (!epoll_ || !signal_)
      throw store_error(fmt::format("the store cannot be served: {}", std::strerror(errno)));
    for (auto& [key, value] : contents) desk_.put(key, std::move(value));
    watch(EPOLL_CTL_ADD, signal_.get(), signal_id, EPOLLIN);
    watch(EPOLL_CTL_ADD, listener_.get(), listener_id, EPOLLIN);
    // Signals are the main thread's business.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "troupe-store");
  }

  ~impl() {
    stop_ = true;
    signal();
    thread_.join();
  }

  std::uint16_t port() const noexcept { return port_; }

  counts count() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

  void drain(std::chrono::milliseconds limit) {
    draining_ = true;
    signal();
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline_after(limit), [&] { return finished_; });
    stop_ = true;
    signal();
  }

private:
  void signal() {
    const std::uint64_t one = 1;
    // It can only fail when the counter is full, and then the thread is signalled already.
    [[maybe_unused]] const auto n = write(signal_.get(), &one, sizeof one);
  }

  void watch(int operation, int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
      throw store_error(fmt::format("the store cannot watch a socket: {}", std::strerror(errno)));
  }

  void run() {
    std::vector<epoll_event> events(256);
    while (!stop_ && !(draining_ && clients_ == 0)) {
      if (draining_) stop_listening();
      const int n =
          epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), next_timeout());
      for (int i = 0; i < n; ++i) handle_or_drop(events[i].data.u64, events[i].events);
      expire();
      serve_due();
    }
    stop_listening();
    while (!connections_.empty()) drop(connections_.begin()->first);
    std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  int next_timeout() const {
    if (!due_.empty() && queued_ <= limits_.reply_bytes) return 0;
    if (timers_.empty()) return -1;
    const auto left = time_left(timers_.begin()->first).count();
    return static_cast<int>(std::min<std::int64_t>(left, 60'000));
  }

  void stop_listening() {
    listener_ = unique_fd();
    while (!strangers_.empty()) drop(*strangers_.begin());
  }

  // Memory may run out for one client; the others go on.
  void handle_or_drop(std::uint64_t id, std::uint32_t events) {
    try {
      handle(id, events);
    } catch (const std::exception& e) {
      log().error("the store dropped a connection: {}", e.what());
      if (connections_.contains(id)) drop(id);
    }
  }

  void handle(std::uint64_t id, std::uint32_t events) {
    if (id == listener_id) return accept_all();
    if (id == signal_id) {
      std::uint64_t ignored = 0;
      [[maybe_unused]] const auto n = read(signal_.get(), &ignored, sizeof ignored);
      return;
    }
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;  // dropped by an earlier event
    auto& c = *found->second;
    if (c.at == stage::waiting) return drop(id);  // all that is watched then is its end
    if (c.at == stage::replying && !send_reply(c)) return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) read_from(c);
  }

  void accept_all() {
    for (int i = 0; i < max_accepts_at_once && listener_; ++i) {
      unique_fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          return make_room(errno);
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      if (strangers_.size() >= limits_.strangers)
        refuse(*strangers_.begin(), "was one of too many");
      const auto id = next_id_++;
      auto c = std::make_unique<connection>(id, std::move(fd), secret_);
      watch(EPOLL_CTL_ADD, c->fd.get(), id, c->events = EPOLLIN);
      auto& added = *connections_.emplace(id, std::move(c)).first->second;
      strangers_.insert(id);
      set_timer(added, deadline_after(limits_.proof_time));
      std::lock_guard lock(mutex_);
      ++counts_.accepted;
    }
  }

  // Out of descriptors: strangers go first; without any, nobody is accepted until somebody leaves.
  void make_room(int error) {
    if (!strangers_.empty()) return refuse(*strangers_.begin(), "was one of too many");
    log().warn("the store accepts no more connections until one of its {} ends: {}{}", clients_,
               std::strerror(error), error == EMFILE ? " (raise the limit with ulimit -n)" : "");
    watch(EPOLL_CTL_MOD, listener_.get(), listener_id, 0);
    listener_paused_ = true;
  }

  void read_from(connection& c) {
    const auto id = c.id;
    for (int i = 0; i < max_requests_at_once; ++i) {
      const auto result = c.receive();
      if (result == progress::closed) {
        if (c.is_stranger()) return refuse(id, "ended without a proof", c.at == stage::proof);
        return drop(id);
      }
      if (result == progress::blocked) {
        if (c.at == stage::body) set_timer(c, deadline_after(limits_.stall_time));
        break;
      }
      if (!take_input(c)) return;
      if (c.at == stage::waiting || c.at == stage::replying) break;
    }
    update_events(c);
  }

  // Something is complete. False if the connection was dropped.
  bool take_input(connection& c) {
    switch (c.at) {
      case stage::greeting: return take_greeting(c);
      case stage::proof: return take_proof(c);
      case stage::length: return take_length(c);
      default: return take_request(c);
    }
  }

  bool take_greeting(connection& c) {
    store_handshake::challenge challenge;
    const auto verdict =
        c.handshake.accept(c.input().first<sizeof(store_handshake::greeting)>(), challenge);
    const bool ours = verdict != store_handshake::verdict::not_troupe;
    // The socket's buffer is empty: these few bytes fit, or the peer is gone. A peer of another
    // version gets them too, so that it can say what is wrong.
    const auto sent =
        !ours ? -1 : send(c.fd.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL);
    if (verdict != store_handshake::verdict::accepted)
      return refuse(c.id, ours ? "speaks another version" : "does not speak this protocol"), false;
    if (sent != static_cast<ssize_t>(challenge.size()))
      return refuse(c.id, "ended without a proof"), false;
    c.expect(stage::proof, sizeof(store_handshake::answer));
    return true;
  }

  bool take_proof(connection& c) {
    if (!c.handshake.admit(c.input().first<sizeof(store_handshake::answer)>()))
      return refuse(c.id, "does not know the job's secret", true), false;
    if (clients_ >= limits_.clients) return refuse(c.id, "was one client too many"), false;
    strangers_.erase(c.id);
    set_timer(c, std::nullopt);
    c.expect(stage::length, sizeof(std::uint32_t));
    ++clients_;
    std::lock_guard lock(mutex_);
    counts_.clients = clients_;
    return true;
  }

  bool take_length(connection& c) {
    std::uint32_t length = 0;
    std::memcpy(&length, c.input().data(), sizeof length);
    if (length == 0 || length > max_store_message) return garbled(c, "a request of a wrong length");
    c.expect(stage::body, length);
    return true;
  }

  bool take_request(connection& c) {
    try {
      c.request = decode_store_request(c.input());
    } catch (const decode_error& e) {
      return garbled(c, e.what());
    }
    c.at = stage::waiting;
    set_timer(c,
              c.request.what == store_request::op::get || c.request.what == store_request::op::wait
                  ? std::optional(deadline_after(c.request.timeout))
                  : std::nullopt);
    return serve(c, false);
  }

  bool garbled(connection& c, const std::string& why) {
    log().warn("the store dropped {}, which sent what is no request: {}", to_string(c.peer), why);
    {
      std::lock_guard lock(mutex_);
      ++counts_.garbled;
    }
    return drop(c.id), false;
  }

  // Answers the request of `c` if that can be done now. False if the connection is gone.
  bool serve(connection& c, bool last_chance) {
    if (queued_ > limits_.reply_bytes) {
      due_.push_back(c.id);
      return true;
    }
    const bool ask_server = c.request.what == store_request::op::status;
    auto reply = ask_server ? refusals() : desk_.answer(c.id, c.request, last_chance || !c.timer);
    const auto woken = desk_.take_woken();
    due_.insert(due_.end(), woken.begin(), woken.end());
    if (!reply) return true;
    set_timer(c, std::nullopt);
    const auto body = encode(*reply);
    const auto length = static_cast<std::uint32_t>(body.size());
    store::bytes out(sizeof length + body.size());
    std::memcpy(out.data(), &length, sizeof length);
    std::memcpy(out.data() + sizeof length, body.data(), body.size());
    queued_ += out.size();
    c.request = {};
    c.reply(std::move(out));
    return send_reply(c);
  }

  void serve_due() {
    while (!due_.empty() && queued_ <= limits_.reply_bytes) {
      const auto found = connections_.find(due_.front());
      due_.pop_front();
      if (found == connections_.end() || found->second->at != stage::waiting) continue;
      auto& c = *found->second;
      if (serve(c, false)) update_events(c);
    }
  }

  // False if the connection is gone.
  bool send_reply(connection& c) {
    const auto before = c.output_left();
    const auto result = c.flush();
    queued_ -= before - c.output_left();
    if (result == progress::closed) return drop(c.id), false;
    if (result == progress::complete) {
      set_timer(c, std::nullopt);
      c.expect(stage::length, sizeof(std::uint32_t));
    } else if (!c.timer || c.output_left() != before) {
      set_timer(c, deadline_after(limits_.stall_time));
    }
    update_events(c);
    return true;
  }

  void expire() {
    const auto now = std::chrono::steady_clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      const auto id = timers_.begin()->second;
      auto& c = *connections_.at(id);
      if (c.at == stage::waiting) {
        set_timer(c, std::nullopt);
        if (serve(c, true)) update_events(c);
      } else if (c.is_stranger()) {
        refuse(id, "gave no proof in time", c.at == stage::proof);
      } else {
        log().warn("the store dropped {}, which has stalled", to_string(c.peer));
        drop(id);
      }
    }
  }

  void set_timer(connection& c, std::optional<time_point> when) {
    if (c.timer) timers_.erase({*c.timer, c.id});
    c.timer = when;
    if (when) timers_.insert({*when, c.id});
  }

  void update_events(connection& c) {
    const std::uint32_t events = c.at == stage::waiting    ? EPOLLRDHUP
                                 : c.at == stage::replying ? EPOLLOUT | EPOLLRDHUP
                                                           : EPOLLIN;
    if (events != c.events) watch(EPOLL_CTL_MOD, c.fd.get(), c.id, c.events = events);
  }

  // Drops a stranger; counts it, and logs the 1st, 2nd, 4th, 8th, ... of its kind. Who greeted as a
  // client does and then gave no proof has another secret, most likely.
  void refuse(std::uint64_t id, const char* why, bool wrong_secret = false) {
    const auto who = to_string(connections_.at(id)->peer);
    std::uint64_t so_far = 0;
    {
      std::lock_guard lock(mutex_);
      so_far = ++(wrong_secret ? counts_.wrong_secret : counts_.strangers);
      (wrong_secret ? counts_.last_wrong_secret : counts_.last_stranger) = who;
    }
    if (std::has_single_bit(so_far))
      log().warn("the store refused {}: it {} ({} so far)", who, why, so_far);
    drop(id);
  }

  std::optional<store_reply> refusals() const {
    std::lock_guard lock(mutex_);
    const auto n = counts_.wrong_secret;
    store_reply out{.what = store_reply::kind::value};
    if (n > 0)
      out.value = to_bytes(
          fmt::format("{} connection{} did not prove to know the job's secret, the last from {}", n,
                      n == 1 ? "" : "s", counts_.last_wrong_secret));
    return out;
  }

  void drop(std::uint64_t id) {
    const auto found = connections_.find(id);
    auto& c = *found->second;
    set_timer(c, std::nullopt);
    desk_.forget(id);
    queued_ -= c.output_left();
    if (strangers_.erase(id) == 0) {
      --clients_;
      std::lock_guard lock(mutex_);
      counts_.clients = clients_;
    }
    connections_.erase(found);
    if (listener_paused_ && listener_) {
      watch(EPOLL_CTL_MOD, listener_.get(), listener_id, EPOLLIN);
      listener_paused_ = false;
    }
  }

  const limits limits_;
  const job_secret secret_;
  unique_fd listener_;
  const std::uint16_t port_;
  unique_fd epoll_;
  unique_fd signal_;
  bool listener_paused_ = false;

  store_desk desk_;
  std::uint64_t next_id_ = signal_id + 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<connection>> connections_;
  std::set<std::uint64_t> strangers_;  // ids grow, so the first is the oldest
  std::set<std::pair<time_point, std::uint64_t>> timers_;
  std::deque<std::uint64_t> due_;  // whose request may be answered now
  std::size_t queued_ = 0;         // bytes of replies not yet sent
  std::size_t clients_ = 0;

  std::atomic<bool> stop_ = false;
  std::atomic<bool> draining_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  counts counts_;
  bool finished_ = false;
  std::thread thread_;
};

tcp_store_server::tcp_store_server(unique_fd listener, const job_secret& secret, const limits& l,
                                   store_contents contents)
    : impl_(std::make_unique<impl>(std::move(listener), secret, l, std::move(contents))) {}

tcp_store_server::tcp_store_server(unique_fd listener, const job_secret& secret)
    : tcp_store_server(std::move(listener), secret, limits{}) {}

tcp_store_server::~tcp_store_server() = default;

std::uint16_t tcp_store_server::port() const noexcept { return impl_->port(); }

tcp_store_server::counts tcp_store_server::count() const { return impl_->count(); }

void tcp_store_server::drain(std::chrono::milliseconds limit) { impl_->drain(limit); }

unique_fd listen_or_throw(const socket_address& address) {
  auto result = listen_on(address);
  if (!result.fd) throw store_error(listen_error_text(address, result.error));
  return std::move(result.fd);
}

std::string listen_error_text(const socket_address& address, int error) {
  const auto where = to_string(address);
  if (error == EADDRINUSE)
    return fmt::format(
        "port {} is in use by another program, so that rank 0 cannot listen on {}; choose another "
        "MASTER_PORT (the same on every rank), or end what listens there (ss -ltnp shows it)",
        address.port(), where);
  if (error == EADDRNOTAVAIL)
    return fmt::format(
        "rank 0 cannot listen on {}: this machine has no such address; MASTER_ADDR must be an "
        "address of the machine that rank 0 runs on (ip addr shows them)",
        where);
  if (error == EACCES)
    return fmt::format("rank 0 may not listen on {}: use a port above 1023", where);
  return fmt::format("rank 0 cannot listen on {}: {}", where, std::strerror(error));
}

}  // namespace troupe::transport
