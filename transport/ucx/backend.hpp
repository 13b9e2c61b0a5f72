#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/transport.hpp"
#include "troupe/transport/ucx/address.hpp"
#include "troupe/transport/ucx/peer.hpp"
#include "troupe/transport/ucx/pending_sends.hpp"
#include "troupe/transport/ucx/prepare.hpp"
#include "troupe/transport/ucx/process_watch.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"
#include "troupe/transport/ucx/worker.hpp"

namespace troupe::transport::ucx {

/// The transport on UCX.
///
/// UCX's callbacks run inside ucp_worker_progress, under the worker's lock: they copy what arrived
/// into memory of ours and queue it; the sink hears of it after ucp_worker_progress has returned.
/// What belongs to the receiving side is used by the progressing thread alone; other threads hand
/// it work through `orders_` and `troubles_`.
class backend final : public transport {
public:
  backend(preparation first, sink& to, payload_pool& pool);
  ~backend() override;

  std::vector<std::byte> address() const override;
  void add_peer(rank_t rank, std::span<const std::byte> bytes) override;
  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override;
  unsigned progress() override;
  int event_fd() const override { return event_fd_; }
  bool arm() override;
  void wake() override;
  bool idle() const override {
    return sends_.idle() && unlinked_count_.load(std::memory_order_acquire) == 0;
  }
  bool delivered() const override;
  void close_peer(rank_t rank, bool force) override;
  std::vector<route> routes() const override;
  counters count() const override;

private:
  // A payload on its way into its final memory.
  struct receive {
    queue* on;
    std::shared_ptr<connection> from;
    std::uint64_t sequence;
    std::size_t index;
    incoming_payload payload;
    std::uint64_t number;  // of the connection back, over a network
    std::list<receive>::iterator place;
  };

  // What another thread asks the progressing one to do.
  struct order {
    peer* about;
    bool add;  // else close
    bool force;
  };

  // A reason to give a peer, or a connection not yet added, up.
  struct trouble {
    peer* about;
    std::shared_ptr<connection> from;
    peer_loss why;
    /// Of this connection alone: a new one may do.
    std::optional<std::uint64_t> number;
    bool ucx = false;  ///< UCX's word, perhaps the first sign of the peer's end
  };

  // backend.cpp
  void start_events();
  std::unique_ptr<peer> connect(rank_t rank, const ucx::address& there);
  ucs_status_t open_endpoint(peer& p, queue& from, std::span<const std::byte> bytes);
  ucs_status_t say_hello(peer& p);
  void describe_lanes(peer& p);

  // own_queue.cpp
  std::string make_own_queue(peer& p);
  void say_way(peer& p);
  static ucs_status_t on_way(void* on, const void* header, std::size_t header_size, void* data,
                             std::size_t size, const ucp_am_recv_param_t* param);
  void go_over(connection& c);
  unsigned take_goodbyes();
  void retire_queues();

  // send.cpp
  message_header header_of(const peer& p, std::uint64_t sequence, std::uint64_t order,
                           std::size_t payloads) const;
  payload_header header_of(const peer& p, std::uint64_t sequence, std::size_t index,
                           const outgoing_payload& payload) const;
  bool send_kept(peer& p, sent_message&& m);
  bool transmit(peer& p, const retained::message& m);
  ucs_status_ptr_t start_payload(peer& p, const payload_header& header,
                                 const outgoing_payload& payload, send_slot* slot) const;
  void broke(peer& p, std::uint64_t number, const char* what, ucs_status_t status);
  bool send_envelope(peer& p, const message_header& header, frame&& envelope);
  bool send_payload(peer& p, const payload_header& header, outgoing_payload&& payload);
  bool send_chunks(peer& p, const payload_header& header, outgoing_payload&& payload);
  static bool in_pieces(peer& p, const outgoing_payload& payload);
  static void measure_copies(peer& p, std::size_t bytes,
                             std::chrono::steady_clock::time_point start);
  bool finish(peer& p, send_slot* slot, ucs_status_ptr_t result);
  static void say_goodbye(peer& p);
  static void on_endpoint_error(void* p, ucp_ep_h, ucs_status_t status);
  void has_left(peer& p);
  void trouble_with(peer& p, peer_loss why, bool ucx = false);
  void trouble_with(std::shared_ptr<connection> c, peer_loss why);

  // receive.cpp
  void set_handlers(queue& q);
  const std::shared_ptr<connection>* known(rank_t from, std::uint64_t token);
  const std::shared_ptr<connection>* waiting(rank_t from, std::uint64_t token);
  ucs_status_t stranger();
  std::vector<incoming_message>& out(connection& c) { return c.added ? ready_ : c.held; }
  template <class Header, class Take>
  static ucs_status_t from_known(void* on, const void* header, std::size_t header_size,
                                 Take&& take);
  static ucs_status_t on_message(void* on, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t on_payload(void* on, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t on_chunk(void* on, const void* header, std::size_t header_size, void* data,
                               std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t on_hello(void* on, const void* header, std::size_t header_size, void* data,
                               std::size_t size, const ucp_am_recv_param_t* param);
  static ucs_status_t on_goodbye(void* on, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param);
  static void on_received(void* request, ucs_status_t status, std::size_t size, void* user_data);
  static ucs_status_t on_acknowledgement(void* on, const void* header, std::size_t header_size,
                                         void* data, std::size_t size,
                                         const ucp_am_recv_param_t* param);
  ucs_status_t take_payload(queue& on, const std::shared_ptr<connection>& c,
                            const payload_header& header, void* data, bool rendezvous);
  void take_chunk(connection& c, const chunk_header& header, const void* data, std::size_t size);
  incoming_payload make_payload(const payload_header& header);
  void received(receive& r, ucs_status_t status);

  // acknowledge.cpp
  void arrived(const std::shared_ptr<connection>& c, std::size_t bytes);
  void greeted(const std::shared_ptr<connection>& c, const hello_header& h);
  void take_news(const std::shared_ptr<connection>& c);
  unsigned attend_to_news();
  void hear(connection& c);
  unsigned acknowledge();
  bool say_acknowledgement(peer& p, std::uint64_t number, bool asks = false);

  // reconnect.cpp
  void out_of_reach(peer& p, const peer_loss& why);
  void reconnect(peer& p, std::uint64_t number, const std::string& why);
  void answered(peer& p);
  bool resend(peer& p);
  unsigned attend_to_links();
  bool set_alarm();

  // suspects.cpp
  void suspect(peer& p, const peer_loss& why);
  unsigned attend_to_suspects();

  // progress.cpp
  unsigned poll_queues();
  unsigned carry_out_orders();
  unsigned attend_to_troubles();
  unsigned look_at_processes();
  unsigned deliver();
  unsigned finish_closing();
  void admit(peer& p);
  void silence(const peer& p);
  void forget(const peer& p);
  void take_what_is_left(const peer& p);
  void lose(peer& p, const peer_loss& why);
  void close_endpoint(peer& p, bool force);
  void release_endpoint(peer& p, bool force);
  bool closes_done();
  bool something_to_do() const;

  const ucx_options options_;
  const std::uint16_t shape_;
  sink& sink_;
  payload_pool& pool_;
  const nonce id_;
  const process_identity process_;
  process_watch watch_;
  int event_fd_ = -1;
  int alarm_ = -1;  // a timerfd, for tries to connect again

  peer_table peers_;
  std::vector<std::unique_ptr<peer>> failed_;  // that could not be connected
  pending_sends sends_;

  mutable std::mutex mutex_;  // of `orders_` and of writing to `peers_`
  std::vector<order> orders_;
  std::atomic<bool> any_orders_{false};
  std::mutex trouble_mutex_;  // taken inside UCX's callbacks; nothing is called under it
  std::vector<trouble> troubles_;
  std::atomic<bool> any_troubles_{false};
  std::atomic<std::size_t> unlinked_count_{0};

  // Of the progressing thread.
  std::vector<std::shared_ptr<connection>> connections_;  // by rank; null: none
  std::vector<std::shared_ptr<connection>> waiting_;      // heard of, not yet added
  std::vector<incoming_message> ready_;
  std::list<receive> receives_;
  struct closing {
    peer* whom;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<closing> closing_;  // until their sends are done, or cannot be
  struct suspicion {
    peer* whom;
    peer_loss why;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<suspicion> suspects_;  // until their end is known, or seems not to come
  std::vector<ucs_status_ptr_t> closes_;
  std::vector<std::shared_ptr<connection>> goodbyes_;
  std::vector<queue*> own_queues_;                  // those of the peers
  std::vector<peer*> retiring_;                     // those whose own queue is of no use any more
  std::vector<std::shared_ptr<connection>> news_;   // something was acknowledged, or a hello came
  std::vector<std::shared_ptr<connection>> owing_;  // perhaps to be told what has arrived
  bool owing_much_ = false;
  std::vector<peer*> unlinked_;  // being connected again
  bool alarm_set_ = false;
  bool any_closes_ = false;
  unsigned polls_ = 0;
  unsigned common_looks_ = 0;  // at the common queue, at least so many
  unsigned events_ = 0;        // in callbacks
  bool look_ = false;
  bool ending_ = false;

  std::atomic<std::uint64_t> messages_received_{0};
  std::atomic<std::uint64_t> bytes_received_{0};
  std::atomic<std::uint64_t> strangers_{0};

  // Last: nothing above may be destroyed while UCX can still call back.
  std::unique_ptr<queue> common_;
};

}  // namespace troupe::transport::ucx
