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
/// into memory of ours and queue it; the sink is called after ucp_worker_progress has returned. The
/// state of the receiving side is used by the progressing thread alone; other threads hand it work
/// through `orders_` and `troubles_`.
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
    // Two moments: a peer that is connected again may pass from one count to the other between
    // them. `delivered` looks at what is kept as well.
    return sends_.idle() && unlinked_count_.load(std::memory_order_acquire) == 0;
  }
  bool delivered() const override;
  void close_peer(rank_t rank, bool force) override;
  std::vector<route> routes() const override;
  counters count() const override;

private:
  // A payload that is being received into its final memory.
  struct receive {
    receive_worker* on;
    std::shared_ptr<connection> from;
    std::uint64_t sequence;
    std::size_t index;
    incoming_payload payload;
    std::uint64_t number;  // of the connection back, over a network
    std::list<receive>::iterator place;
  };

  // A request of another thread to the progressing one.
  struct order {
    peer* about;
    bool add;  // else close
    bool force;
  };

  // A reason to give up a peer, or a connection that has not been added.
  struct trouble {
    peer* about;
    std::shared_ptr<connection> from;
    peer_loss why;
    /// Set: of this connection alone; a new one may work.
    std::optional<std::uint64_t> number;
    bool ucx = false;  ///< reported by UCX, perhaps the first sign of the peer's end
  };

  // backend.cpp
  void start_events();
  std::unique_ptr<peer> connect(rank_t rank, const ucx::address& there);
  static ucs_status_t open_endpoint(peer& p, receive_worker& from, std::span<const std::byte> bytes,
                                    ucp_ep_h& made);
  ucs_status_t send_hello(peer& p);
  void describe_lanes(peer& p);

  // backend_peer_receive_workers.cpp
  std::string make_peer_receive_worker(peer& p);
  void send_worker_address(peer& p, ucp_ep_h over);
  static ucs_status_t on_worker_address(void* on, const void* header, std::size_t header_size,
                                        void* data, std::size_t size,
                                        const ucp_am_recv_param_t* param);
  static ucs_status_t on_switched(void* on, const void* header, std::size_t header_size, void* data,
                                  std::size_t size, const ucp_am_recv_param_t* param);
  bool begins_switch(const peer& p) const noexcept;
  void open_way_to_peer_worker(connection& c);
  void follow_switch(peer& p);
  static void read_what_is_there(receive_worker& queue, const queue_shape& shape);
  unsigned take_leave_notices();
  void retire_receive_workers();

  // backend_send.cpp
  message_header header_of(const peer& p, std::uint64_t sequence, std::uint64_t order,
                           std::size_t payloads) const;
  payload_header header_of(const peer& p, std::uint64_t sequence, std::size_t index,
                           const outgoing_payload& payload) const;
  bool send_over_network(peer& p, sent_message&& m);
  bool transmit(peer& p, const retransmit_queue::message& m);
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
  static bool send_leave_notice(peer& p);
  static void on_endpoint_error(void* p, ucp_ep_h, ucs_status_t status);
  void has_left(peer& p);
  void trouble_with(peer& p, peer_loss why, bool ucx = false);
  void trouble_with(std::shared_ptr<connection> c, peer_loss why);

  // backend_receive.cpp
  void set_handlers(receive_worker& q);
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
  static ucs_status_t on_leave_notice(void* on, const void* header, std::size_t header_size,
                                      void* data, std::size_t size,
                                      const ucp_am_recv_param_t* param);
  static void on_received(void* request, ucs_status_t status, std::size_t size, void* user_data);
  static ucs_status_t on_acknowledgement(void* on, const void* header, std::size_t header_size,
                                         void* data, std::size_t size,
                                         const ucp_am_recv_param_t* param);
  ucs_status_t take_payload(receive_worker& on, const std::shared_ptr<connection>& c,
                            const payload_header& header, void* data, bool rendezvous);
  void take_chunk(connection& c, const chunk_header& header, const void* data, std::size_t size);
  incoming_payload make_payload(const payload_header& header);
  void received(receive& r, ucs_status_t status);

  // backend_acknowledge.cpp
  void arrived(const std::shared_ptr<connection>& c, std::size_t bytes);
  void greeted(const std::shared_ptr<connection>& c, const hello_header& h);
  void mark_updated(const std::shared_ptr<connection>& c);
  unsigned process_updates();
  void process_update(connection& c);
  unsigned acknowledge();
  bool send_acknowledgement(peer& p, std::uint64_t number, bool asks = false);

  // backend_reconnect.cpp
  void out_of_reach(peer& p, const peer_loss& why);
  void reconnect(peer& p, std::uint64_t number, const std::string& why);
  void answered(peer& p);
  bool resend(peer& p);
  unsigned attend_to_links();
  bool set_alarm();

  // backend_suspects.cpp
  void suspect(peer& p, const peer_loss& why);
  unsigned attend_to_suspects();

  // backend_progress.cpp
  unsigned poll_workers();
  bool arm_workers();
  unsigned carry_out_orders();
  unsigned attend_to_troubles();
  unsigned look_at_processes();
  unsigned deliver();
  unsigned finish_closing();
  void admit(peer& p);
  void silence(const peer& p);
  void forget(const peer& p);
  connection* connection_from(const peer& p) const noexcept;
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
  int alarm_ = -1;  // a timerfd, for reconnect attempts

  peer_table peers_;
  std::vector<std::unique_ptr<peer>> failed_;  // that could not be connected
  pending_sends sends_;

  // Guards `orders_` and writes to `peers_`. Taken before UCX's locks and those of `watch_`, of
  // same_process_peers, of a peer's reason and of what it keeps.
  mutable std::mutex mutex_;
  std::vector<order> orders_;
  std::atomic<bool> any_orders_{false};
  std::mutex trouble_mutex_;  // taken inside UCX's callbacks; held for no call
  std::vector<trouble> troubles_;
  std::atomic<bool> any_troubles_{false};
  std::atomic<std::size_t> unlinked_count_{0};
  std::atomic<bool> arm_all_{true};  // what was sent may go on in UCX, untold

  // Used by the progressing thread only.
  std::vector<std::shared_ptr<connection>> connections_;  // by rank; null: none
  std::vector<std::shared_ptr<connection>> waiting_;      // known by their hello, not yet added
  std::vector<incoming_message> ready_;
  std::list<receive> receives_;
  struct closing {
    peer* whom;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<closing> closing_;  // until their sends are done or the time is over
  struct suspicion {
    peer* whom;
    peer_loss why;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<suspicion> suspects_;  // until their end is confirmed or the time is over
  std::vector<ucs_status_ptr_t> closes_;
  std::vector<std::shared_ptr<connection>> leave_notices_;
  std::vector<receive_worker*> peer_receive_workers_;  // those of the peers
  std::vector<peer*> retiring_;                        // those whose own worker can be destroyed
  std::vector<std::shared_ptr<connection>>
      updated_;                                     // with acknowledgements or addresses to process
  std::vector<std::shared_ptr<connection>> owing_;  // may have to be sent an acknowledgement
  bool owing_much_ = false;
  std::vector<peer*> unlinked_;  // being connected again
  bool alarm_set_ = false;
  bool any_closes_ = false;
  unsigned polls_ = 0;
  unsigned common_looks_ = 0;  // polls of the common worker left before it is polled rarely
  unsigned events_ = 0;        // in callbacks
  bool look_ = false;
  bool ending_ = false;

  std::atomic<std::uint64_t> messages_received_{0};
  std::atomic<std::uint64_t> bytes_received_{0};
  std::atomic<std::uint64_t> strangers_{0};

  // Last: nothing above may be destroyed while UCX can still call back.
  std::unique_ptr<receive_worker> common_;
};

}  // namespace troupe::transport::ucx
