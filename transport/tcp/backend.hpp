#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/transport/tcp/chunk_thread.hpp"
#include "troupe/transport/tcp/greeting.hpp"
#include "troupe/transport/tcp/peer.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::tcp {

/// How long to wait for a node that listens and does not know this one yet.
inline constexpr std::chrono::seconds greeting_timeout{30};

/// How soon the kernel ends a connection to a host that is silent.
inline tcp_probes probes(const tcp_options& options) {
  // The kernel takes no more: 15 bits of seconds, 31 bits of milliseconds.
  constexpr std::chrono::seconds longest{32'767};
  constexpr std::chrono::milliseconds longest_limit{INT32_MAX};
  const auto interval = std::clamp(std::chrono::floor<std::chrono::seconds>(options.keepalive),
                                   std::chrono::seconds(1), longest);
  return {interval, interval, 3, std::min(options.limit * 4 / 5, longest_limit)};
}

/// The transport on TCP. All but sending messages is done by the progressing thread; other threads
/// hand it work through `orders_`. If it is asked to, it has a second thread write and read every
/// other chunk of payloads, and waits for it.
class backend final : public transport {
public:
  backend(tcp_options options, sink& to, payload_pool& pool);
  ~backend() override;

  std::vector<std::byte> address() const override;
  void add_peer(rank_t rank, std::span<const std::byte> bytes) override;
  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override;
  unsigned progress() override;
  int event_fd() const override { return epoll_.get(); }
  bool arm() override;
  void wake() override;
  bool idle() const override;
  bool delivered() const override;
  void close_peer(rank_t rank, bool force) override;
  std::vector<route> routes() const override;
  counters count() const override;

private:
  /// A request of another thread to the progressing one.
  struct order {
    enum class kind : std::uint8_t { added, call, close, force_close, broke };
    peer* about;
    kind what;
    std::shared_ptr<stream> which{};  ///< broke: this connection
    std::string why{};
  };

  /// What epoll watches, by number.
  struct target {
    enum class kind : std::uint8_t { wake, timer, listener, greeting, stream, lingering, process };
    kind what;
    int fd = -1;
    greeting* greets = nullptr;
    std::shared_ptr<stream> flows{};
    peer* of = nullptr;
    steady::time_point until{};  ///< lingering: no longer
  };

  /// Takes what a stream of `of` brings, perhaps while another thread does so with another stream.
  class record_taker final : public record_sink {
  public:
    record_taker(backend& to, peer& of, stream_kind kind, bool beside) noexcept
        : to_(to), of_(of), kind_(kind), beside_(beside) {}

    void on_record(const record_head& head, std::span<const std::byte> body) override;
    std::byte* place_for(const record_head& head) override;
    void on_attached(const record_head& head) override;

  private:
    std::unique_lock<std::mutex> alone();

    backend& to_;
    peer& of_;
    const stream_kind kind_;
    const bool beside_;
  };

  /// One look at a stream: what it is about, and what has come of it.
  struct reading {
    std::shared_ptr<stream> from;
    peer* of;
    stream::outcome outcome = stream::outcome::drained;
    unsigned count = 0;
    std::string why{};                      ///< ended or broken
    std::optional<std::string> nonsense{};  ///< that it has sent
  };

  /// A chunk that is written.
  struct writing {
    peer* of;
    std::shared_ptr<stream> to;
    bool broken_stream = false;
    std::string why{};
    stream::sent_records sent{};
  };

  // backend.cpp
  void listen();
  void post(order&& one);
  template <class Idle>
  bool all_peers(Idle&& is_so) const;

  // backend_send.cpp
  bool transmit(peer& p, const retransmit_queue::message& m);
  record_head head_of(peer& p, const sent_message& m);
  bool send_small(peer& p, const sent_message& m, stream::sent_records& sent);
  bool flush(peer& p, stream::sent_records& sent);
  bool flushed(peer& p, bool done, std::string&& why);

  // backend_dial.cpp
  std::uint64_t watch(target&& one, std::uint32_t events);
  void unwatch(std::uint64_t id, int fd);
  bool rewatch(std::uint64_t id, int fd, std::uint32_t events);
  void dial(peer& p, stream_kind kind, unsigned index, std::size_t attempt);
  unsigned bulk_streams() const noexcept;
  std::vector<std::size_t> order_of(const peer& p, unsigned index, bool bulk) const;
  const socket_address* source_for(const place& to, const peer& p) const;

  // backend_greet.cpp
  unsigned accept_all(int listener);
  bool drop_oldest_stranger();
  void act_on(std::uint64_t id, greeting& one, greeting::outcome what);
  void greeted(std::uint64_t id, greeting& one);
  void failed(std::uint64_t id, greeting& one);
  void proven(std::uint64_t id, greeting& one);
  void end(std::uint64_t id, greeting& one);
  void end_calls(const peer& p, stream_kind kind);
  void bulk_failed(peer& p, unsigned index, const std::string& why);
  void call_bulk_again(peer& p);
  void stranger(const greeting& one);
  void count_stranger(greeting& one, bool counts);

  // backend_connect.cpp
  void call(peer& p, steady::duration in);
  void adopt(peer& p, std::shared_ptr<stream> s);
  void resumed(peer& p, std::uint64_t expected);
  void drop_streams(peer& p, bool says_leave);
  void linger(std::shared_ptr<stream> s);
  void broke(peer& p, const std::shared_ptr<stream>& s, const std::string& why);
  bool leave_interface(peer& p);
  void lose(peer& p, peer_loss why);
  unique_fd process_of(const tcp::address& there, rank_t rank) const;
  void watch_process_of(peer& p);
  void process_ended(peer& p);
  void warn_of_no_watch(rank_t rank, const std::string& why) const;
  void close(peer& p, bool force);
  void look_after(peer& p);
  void attend_by(steady::time_point due);
  unsigned attend(steady::time_point now);
  void attend(peer& p, steady::time_point now);
  steady::time_point next_due() const;
  std::chrono::milliseconds time_out_of_reach(const peer& p) const;

  // backend_progress.cpp
  unsigned carry_out_orders();
  unsigned look_at_hot();
  void set_hot(std::uint64_t id);
  void watch_hot(bool yes);
  unsigned poll();
  unsigned read(std::uint64_t id, std::size_t most);
  std::optional<reading> reading_of(std::uint64_t id) const;
  void receive(reading& one, std::size_t most, bool beside) noexcept;
  void settle(reading& one, std::size_t before);
  unsigned received(reading& one);
  void take_what_is_left(peer& p);
  unsigned acknowledge(bool all);
  void take_acknowledgements();
  unsigned take_own();
  unsigned deliver();

  // backend_payloads.cpp
  void let_others_run();
  void let_receiver_run();
  static void yield(steady::time_point& at, steady::duration pause);
  bool messages_are_frequent() const noexcept;
  void count_message() noexcept;
  std::size_t next_chunk(std::size_t payload) noexcept;
  bool glance();
  chunk_thread* second_thread();
  std::uint64_t next_to_read();
  unsigned read_payloads(std::size_t most);
  bool read_payloads();
  unsigned pump_bulk();
  std::optional<writing> next_to_write(const stream* beside);
  std::shared_ptr<stream> filled_stream(peer& p, const stream* beside);
  static void write(writing& one) noexcept;
  void written(writing& one);
  bool has_more_to_write(peer& p);
  bool fill(peer& p, stream& s);

  // backend_receive.cpp
  void take_record(peer& p, stream_kind kind, const record_head& head,
                   std::span<const std::byte> body);
  std::byte* place_for(peer& p, stream_kind kind, const record_head& head);
  void take_attached(peer& p, const record_head& head);
  arriving_payload& arriving(peer& p, const record_head& head, std::size_t offset,
                             std::size_t size);
  void arrived(peer& p, const record_head& head, std::size_t size);
  void note_acknowledgement(peer& p, std::uint64_t expected);
  void count_arrival(peer& p, std::size_t bytes);

  const tcp_options options_;
  sink& sink_;
  payload_pool& pool_;
  nonce id_;
  const process_identity process_;
  const unique_fd epoll_;
  const unique_fd wake_;
  const unique_fd timer_;
  std::vector<unique_fd> listeners_;
  std::vector<local_place> places_;

  peer_table peers_;
  // Locks are taken in this order: `mutex_`, for writes to `peers_`; that of a peer; that of its
  // bulk; `orders_mutex_`. That of a retransmit_queue comes last.
  mutable std::mutex mutex_;
  std::mutex orders_mutex_;
  std::vector<order> orders_;
  // Hints for the progressing thread. Each is set after what it announces is there, and cleared
  // before the thread looks at that, or under its lock.
  std::atomic<bool> any_orders_{false};
  std::atomic<bool> any_bulk_{false};
  std::atomic<bool> any_own_{false};  // messages to this node itself

  // Used by the progressing thread only.
  std::unordered_map<std::uint64_t, target> targets_;
  std::uint64_t last_target_ = 0;
  std::list<std::unique_ptr<greeting>> greetings_;  // the oldest first
  std::size_t strangers_now_ = 0;                   // of these, that have not proved themselves
  std::vector<peer*> out_;                          // see look_after
  std::vector<peer*> bulk_peers_;
  std::vector<peer*> owing_;
  std::vector<peer*> confirming_;  // whose acknowledgements are noted, and not taken up yet
  std::vector<incoming_message> ready_;
  std::vector<std::pair<rank_t, peer_loss>> lost_;
  std::uint64_t hot_ = 0;                // the stream that has delivered last
  unsigned hot_reads_ = 0;               // looks at it that have brought something
  bool hot_unwatched_ = false;           // by epoll
  std::uint64_t last_read_ = 0;          // of the streams with payloads
  unsigned peer_turn_ = 0;               // to whom payloads are sent next
  std::vector<std::uint64_t> payloads_;  // streams that have some, as epoll has reported last
  bool put_off_ = false;                 // payloads wait for the next turn
  bool sending_put_off_ = false;         // those to be sent do
  unsigned chunks_since_message_ = 0;    // sent; counted up to where it makes a difference
  bool frequent_ = false;                // the last message came soon after the one before
  steady::time_point last_chunk_{};      // while messages are frequent
  bool delivered_ = false;               // something, since `progress` began last
  unsigned polls_ = 0;
  bool owing_much_ = false;
  steady::time_point yields_at_{}, yields_to_receiver_at_{};  // not before
  steady::time_point attend_at_ = steady::time_point::max();
  steady::time_point listen_again_at_ = steady::time_point::max();  // descriptors are scarce
  std::mutex beside_mutex_;               // while two threads take what comes; see record_taker
  std::unique_ptr<chunk_thread> second_;  // made when it is needed first
  bool no_second_ = false;                // the system gave none

  std::atomic<std::uint64_t> messages_sent_{0}, messages_received_{0};
  std::atomic<std::uint64_t> bytes_sent_{0}, bytes_received_{0};
  std::atomic<std::uint64_t> strangers_{0};
};

}  // namespace troupe::transport::tcp
