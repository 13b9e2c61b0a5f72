#include "troupe/transport/ucx/backend.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/ucx/lanes.hpp"
#include "troupe/transport/ucx/permitted.hpp"
#include "troupe/transport/ucx/same_process_peers.hpp"
#include "troupe/transport/ucx/send_header.hpp"

namespace troupe::transport {

std::unique_ptr<transport> make_ucx_transport(ucx_options options, sink& to, payload_pool& pool) {
  ucx::start_proofs();
  return std::make_unique<ucx::backend>(ucx::prepare(std::move(options)), to, pool);
}

std::string ucx_apart(const ucx_options& here, std::span<const std::byte> own,
                      std::span<const std::byte> other) {
  try {
    const auto there = ucx::decode(other, here.key);
    if (ucx::uses_network(here) && !there.network.empty()) return {};
    return troupe::transport::apart(ucx::decode(own, here.key).process, there.process);
  } catch (const decode_error& e) {
    throw transport_error(e.fault().text);
  }
}

namespace ucx {

namespace {

// How long the destructor may take. Over TCP a peer must make progress to agree to the close.
constexpr std::chrono::milliseconds longest_shutdown{200};

[[noreturn]] void throw_apart(const ucx_options& here, rank_t rank, const peer& p) {
  std::string why;
  if (here.kind == ucx_kind::shared_memory)
    why = "the transport is 'shared_memory'";
  else if (here.trusted_network && here.one_host)
    why =
        "where the job meets, at a loopback address, nodes are taken to share memory, and open no "
        "port; let it meet at another address (MASTER_ADDR)";
  else
    why =
        "UCX's protocol lets any process that reaches its port write into this one, so it is used "
        "only where rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1 says, on every node, "
        "that no one else can reach the network";
  throw transport_error("cannot connect to " + rank_name(rank) + ": it is in " + p.place +
                        ", and there is no network for the two: " + why);
}

}  // namespace

backend::backend(preparation first, sink& to, payload_pool& pool)
    : options_(std::move(first.options)),
      shape_(first.shape),
      sink_(to),
      pool_(pool),
      id_(make_nonce()),
      process_(this_process()),
      sends_([this](const send_slot& slot, ucs_status_t status) {
        broke(*slot.to, slot.connection, "a send failed", status);
      }),
      common_(std::make_unique<receive_worker>(*this, options_, reach::all, common_shape)) {
  start_events();
  set_handlers(*common_);
  same_process_peers::begin(id_);
}

backend::~backend() {
  for (const auto& p : peers_.all()) same_process_peers::unwatch(p.get());
  ending_ = true;
  for (const auto& p : peers_.all()) {
    if (p->status.exchange(peer::state::gone) == peer::state::gone) continue;
    const bool later = send_leave_notice(*p);
    // Small messages that UCX has not sent yet still go out; large payloads are dropped. What is in
    // shared memory has gone out: nothing is waited for, since what comes from others while their
    // endpoints are closed is dangerous (see backend_peer_receive_workers.cpp).
    const bool over = p->shared && !later;
    close_endpoint(*p, over || p->pending.load() > 0 || (p->net && p->net->now != link::phase::up));
  }
  const auto end = std::chrono::steady_clock::now() + longest_shutdown;
  while ((!closes_done() || !sends_.idle()) && std::chrono::steady_clock::now() < end) {
    common_->progress();
    for (receive_worker* q : peer_receive_workers_) q->progress();
  }
  for (ucs_status_ptr_t request : closes_) ucp_request_free(request);
  for (const auto& p : peers_.all()) p->own_worker.reset();
  common_.reset();
  same_process_peers::end(id_);
  close(event_fd_);
  close(alarm_);
}

void backend::start_events() {
  event_fd_ = epoll_create1(EPOLL_CLOEXEC);
  alarm_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  bool good = event_fd_ >= 0 && alarm_ >= 0;
  for (const int fd : {common_->event_fd(), watch_.fd(), alarm_}) {
    epoll_event event{};
    event.events = EPOLLIN;
    good = good && epoll_ctl(event_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
  }
  if (good) return;
  const auto why = with_descriptor_shortage(std::string("cannot make UCX's event descriptor: ") +
                                            std::strerror(errno));
  if (event_fd_ >= 0) close(event_fd_);
  if (alarm_ >= 0) close(alarm_);
  throw transport_error(why);
}

std::vector<std::byte> backend::address() const {
  ucx::address a;
  a.rank = options_.rank;
  a.shape = shape_;
  a.id = id_;
  a.process = process_;
  a.any = common_->address(false);
  if (uses_network(options_)) a.network = common_->address(true);
  return encode(a, options_.key);
}

void backend::add_peer(rank_t rank, std::span<const std::byte> bytes) {
  const std::string who = rank_name(rank);
  if (rank >= peer_table::most) throw invalid_argument(who + " is too large for the UCX transport");
  ucx::address there;
  try {
    there = decode(bytes, options_.key);
  } catch (const error& e) {
    throw transport_error("cannot connect to " + who + ": " + e.what());
  }
  if (there.rank != rank)
    throw transport_error("cannot connect to " + who + ": this is the address of " +
                          rank_name(there.rank));
  const std::lock_guard lock(mutex_);
  if (const peer* old = peers_.find(rank)) {
    if (old->status.load() == peer::state::live)
      throw transport_error(who + " is connected already; close it first");
    if (old->id == there.id)
      throw transport_error(who + " was lost and cannot be added again with the same address");
  }
  auto made = connect(rank, there);
  peer& p = *made;
  peers_.set(std::move(made));  // before anything can fail: UCX may still report errors about it
  if (const auto status = send_hello(p); status != UCS_OK) {
    orders_.push_back({&p, false, true});
    // As in `close_peer`.
    any_orders_.store(true, std::memory_order_release);
    wake();
    throw transport_error(
        with_descriptor_shortage("cannot connect to " + who + ": " + ucs_status_string(status)));
  }
  describe_lanes(p);
  if (p.own_worker && begins_switch(p)) send_worker_address(p, p.ep);
  // Publishes what was set above: senders use nothing of the peer before.
  p.status.store(peer::state::live);
  orders_.push_back({&p, true, false});
  // As in `close_peer`.
  any_orders_.store(true, std::memory_order_release);
  wake();
}

std::unique_ptr<peer> backend::connect(rank_t rank, const ucx::address& there) {
  auto p = std::make_unique<peer>();
  p->rank = rank;
  p->id = there.id;
  p->token = token(options_.key, id_, there.id);
  p->place = apart(process_, there.process);
  p->same_host = p->place.empty();
  p->shared = p->same_host && options_.kind != ucx_kind::tcp;
  const bool network = !p->same_host;
  if (network && (!uses_network(options_) || there.network.empty()))
    throw_apart(options_, rank, *p);
  p->shape = queue_shapes[std::max(shape_, there.shape)];
  if (p->same_host) {
    p->place = "same host";
    if (there.process == process_) {
      if (p->id != id_ &&
          !same_process_peers::watch(p->id, p.get(), [this, whom = p.get()] { has_left(*whom); }))
        throw transport_error("cannot connect to " + rank_name(rank) + ": it has ended");
    } else {
      std::string why;
      int fd = -1;
      try {
        fd = watch_process(there.process, why);
      } catch (const error& e) {
        throw transport_error("cannot connect to " + rank_name(rank) + ": " + e.what());
      }
      if (fd >= 0)
        watch_.add(p.get(), fd);
      else
        log().warn("the end of {} may go unnoticed: {}", rank_name(rank), why);
    }
  }
  const auto& bytes = network ? there.network : there.any;
  p->owner = this;
  if (!p->shared && p->id != id_) {
    p->net = std::make_unique<link>();
    p->net->address = bytes;
    p->net->last_activity = link::clock::now();
  }
  ucp_ep_h made = nullptr;
  if (const auto status = open_endpoint(*p, *common_, bytes, made); status != UCS_OK) {
    const transport_error why(with_descriptor_shortage("cannot connect to " + rank_name(rank) +
                                                       " (" + p->place +
                                                       "): " + ucs_status_string(status)));
    watch_.remove(p.get());
    same_process_peers::unwatch(p.get());
    p->status.store(peer::state::gone);
    failed_.push_back(std::move(p));  // a callback may already refer to it
    throw why;
  }
  p->ep = made;
  return p;
}

// Sets `made`, unless it fails.
ucs_status_t backend::open_endpoint(peer& p, receive_worker& from, std::span<const std::byte> bytes,
                                    ucp_ep_h& made) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(bytes.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &backend::on_endpoint_error;
  params.err_handler.arg = &p;
  return ucp_ep_create(from.get(), &params, &made);
}

ucs_status_t backend::send_hello(peer& p) {
  const auto status = send_header(
      p.ep, am_hello, make_hello(options_.key, options_.rank, id_, p.rank, p.id, p.net != nullptr));
  arm_all_ = true;
  return status;
}

bool backend::delivered() const {
  if (!idle()) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(peers_.all(), [](const auto& p) {
    return !p->net || p->status.load() == peer::state::gone || p->net->unacknowledged.size() == 0;
  });
}

void backend::close_peer(rank_t rank, bool force) {
  const std::lock_guard lock(mutex_);
  peer* p = peers_.find(rank);
  if (!p) return;
  auto live = peer::state::live;
  if (!p->status.compare_exchange_strong(live, peer::state::closing)) return;
  p->set_reason("this node closed the connection");
  orders_.push_back({p, false, force});
  // A hint to poll without the lock: `mutex_` publishes the order. The wake ends a sleep that has
  // not seen it.
  any_orders_.store(true, std::memory_order_release);
  wake();
}

}  // namespace ucx

}  // namespace troupe::transport
