#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "troupe/transport/store/store_waiters.hpp"
#include "troupe/transport/store/tcp/client_count.hpp"
#include "troupe/transport/store/tcp/tcp_store_connection.hpp"
#include "troupe/transport/store/tcp/tcp_store_poller.hpp"
#include "troupe/transport/store/tcp/tcp_store_server.hpp"

namespace troupe::transport {

/// The server's thread and its state. tcp_store_server.cpp accepts and drops connections,
/// tcp_store_server_requests.cpp reads requests and answers them.
///
/// All but `client_count_`, `stop_`, `draining_` and `finished_` is used by the thread alone.
class tcp_store_server::impl {
public:
  impl(unique_fd listener, const job_secret& secret, const limits& l, store_contents contents);
  ~impl();

  std::uint16_t port() const noexcept { return port_; }
  counts count() const { return client_count_.count(); }
  void drain(std::chrono::milliseconds limit);

private:
  using connection = tcp_store_connection;
  using stage = connection::stage;
  using progress = connection::progress;

  void run();
  int next_timeout() const;
  void stop_listening();
  void handle_or_drop(std::uint64_t id, std::uint32_t events);
  void failed(std::uint64_t id, const std::exception& e);
  void handle(std::uint64_t id, std::uint32_t events);
  void accept_all();
  void make_room(int error);
  void listen_again();
  void expire();
  void set_timer(connection& c, std::optional<time_point> when);
  void update_events(connection& c);
  void refuse(std::uint64_t id, const char* why, bool wrong_secret = false);
  void drop(std::uint64_t id);

  // Those that return a bool return false when the connection is gone.
  void read_from(connection& c);
  bool take_input(connection& c);
  bool take_greeting(connection& c);
  bool take_proof(connection& c);
  bool take_length(connection& c);
  bool take_request(connection& c);
  bool garbled(connection& c, const std::string& why);
  bool serve(connection& c, bool last_chance);
  void serve_or_drop(connection& c, bool last_chance);
  void take_up_ready();
  void serve_due();
  bool send_reply(connection& c);
  store_reply status() const;

  const limits limits_;
  const job_secret secret_;
  store_handshake::nonce number_;  // of this server
  unique_fd listener_;
  const std::uint16_t port_;
  tcp_store_poller poller_;
  std::optional<time_point> listen_again_at_;  // no connection is accepted until then
  std::uint64_t pauses_ = 0;

  store_waiters waiters_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<connection>> connections_;
  std::set<std::uint64_t> strangers_;  // ids grow, so the first is the oldest
  std::set<std::pair<time_point, std::uint64_t>> timers_;
  std::deque<std::uint64_t> due_;  // clients whose requests may be answered now
  std::size_t queued_ = 0;         // bytes of replies not yet sent
  std::size_t clients_ = 0;

  std::atomic<bool> stop_ = false;
  std::atomic<bool> draining_ = false;
  client_count client_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace troupe::transport
