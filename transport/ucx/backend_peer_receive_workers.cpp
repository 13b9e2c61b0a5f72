// UCX gives a worker one queue in shared memory for all senders of its host. A sender that is
// killed between taking a place in it and marking the place as written leaves a place that is never
// read, and nothing behind it is read either. So each peer on the host has a worker, and with it a
// queue, of its own here, which ends with it.
//
// An address names the common worker, since it is written before the peers are known. The hello
// goes there, and the switch to the workers of their own begins:
//
// 1. The node of the lower rank sends the address of its worker for the other one.
// 2. The other one makes an endpoint to it, and sends the address of its own worker over that, but
//    nothing else yet.
// 3. The first one makes an endpoint too, sends over it from now on, and says so.
// 4. The other one hears of that, and sends all over its endpoint as well.
//
// So whoever sends to a worker knows that it has an endpoint back. That has a reason in UCX (1.22):
// with the first message that does not fit into a place of the queue (128 bytes with UCX's own),
// the sender asks for a connection, and where the receiver has no endpoint to it, and the sender
// has ended when that is read, the receiver crashes
// (`ucp_wireup_process_request` makes an endpoint, finds no way to the sender, and
// `ucp_ep_set_lanes_failed` looks for the configuration of that endpoint, which has none). The
// address itself goes in parts of one place each, which ask for nothing. For the same reason what
// is in the queues is read before endpoints are closed.
//
// `reassembly` orders what comes over both workers.

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/send_header.hpp"

namespace troupe::transport::ucx {

namespace {

// Bounds a loop over a queue that others keep filling, so that `progress` returns.
constexpr int most_turns = 4096;

}  // namespace

// Makes the worker that receives from `p`. Returns why there is none, or an empty text.
std::string backend::make_peer_receive_worker(peer& p) {
  try {
    auto own_worker =
        std::make_unique<receive_worker>(*this, options_, reach::shared_memory, p.shape);
    set_handlers(*own_worker);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(event_fd_, EPOLL_CTL_ADD, own_worker->event_fd(), &event) != 0)
      throw transport_error(
          with_descriptor_shortage(std::string("epoll_ctl failed: ") + std::strerror(errno)));
    p.own_worker = std::move(own_worker);
    return "";
  } catch (const error& e) {
    return std::string("what it sends shares a queue with others, and breaks with them: ") +
           e.what();
  }
}

void backend::send_worker_address(peer& p, ucp_ep_h over) try {
  const auto signed_address =
      sign_worker_address(options_.key, p.token, p.own_worker->address(false));
  for (std::size_t offset = 0; offset < signed_address.size();
       offset += worker_address_header::part) {
    worker_address_header h{p.token,
                            options_.rank,
                            static_cast<std::uint16_t>(offset),
                            static_cast<std::uint16_t>(signed_address.size()),
                            {}};
    std::copy_n(signed_address.begin() + static_cast<std::ptrdiff_t>(offset),
                std::min(worker_address_header::part, signed_address.size() - offset),
                h.bytes.begin());
    if (const auto status = send_header(over, am_worker_address, h); status != UCS_OK) {
      trouble_with(p, broken("the address of a queue could not be sent", status), true);
      return;
    }
  }
  arm_all_ = true;
}

catch (const error& e) {  // UCX has no address of the worker
  trouble_with(p, {loss_kind::broken, e.what()});
}

bool backend::begins_switch(const peer& p) const noexcept { return options_.rank <= p.rank; }

// The worker's address is that which the peer has for this node alone.
void backend::open_way_to_peer_worker(connection& c) {
  peer& p = *c.back;
  if (p.first_ep || p.next_ep) return;
  const auto address = verify_worker_address(options_.key, c.token, c.worker_address);
  if (!p.shared || address.empty()) throw decode_error("the address of its queue is not genuine");
  c.worker_address_complete = false;
  // The common queue has another shape, and stays in use.
  if (!p.own_worker) return;
  // If this fails the peer has ended, which is noticed elsewhere, or the common worker stays in
  // use.
  p.own_worker->touch();  // connecting is work of UCX's own
  if (const auto status = open_endpoint(p, *p.own_worker, address, p.next_ep); status != UCS_OK) {
    p.next_ep = nullptr;
    log().debug("rank {}: its queue cannot be used: {}", p.rank, ucs_status_string(status));
    return;
  }
  if (!begins_switch(p)) return send_worker_address(p, p.next_ep);
  follow_switch(p);
  const switched_header h{p.token, options_.rank, 0};
  if (const auto status = send_header(p.ep, am_switched, h); status != UCS_OK)
    trouble_with(p, broken("the first message to a queue could not be sent", status), true);
}

// From now on messages go to that worker.
void backend::follow_switch(peer& p) {
  if (p.next_ep) p.first_ep = p.ep.exchange(std::exchange(p.next_ep, nullptr));
}

// As many messages as the queue holds, and no more: others go on sending.
void backend::read_what_is_there(receive_worker& queue, const queue_shape& shape) {
  for (std::size_t read = 0; read < shape.places;) {
    const auto events = queue.progress();
    if (events == 0) return;
    read += events;
  }
}

// Receives what a peer sent before it ended, which may still lie in the queues.
void backend::take_what_is_left(const peer& p) {
  for (int turns = 0; turns < most_turns; ++turns) {
    if (common_->progress() + (p.own_worker ? p.own_worker->progress() : 0) == 0) break;
    if (!ready_.empty()) deliver();
  }
  if (!ready_.empty()) deliver();
}

// Leave notices take effect after what was sent before them, which may still lie in the common
// queue.
unsigned backend::take_leave_notices() {
  int turns = 0;
  while (turns < most_turns && common_->progress() != 0) ++turns;
  if (turns == most_turns) return 0;  // `something_to_do` has it tried again
  const auto leave_notices = std::exchange(leave_notices_, {});
  for (const auto& c : leave_notices)
    if (!c->over) trouble_with(c, peer_left());
  return static_cast<unsigned>(leave_notices.size());
}

// Pre: no endpoint is being closed.
void backend::retire_receive_workers() {
  std::erase_if(retiring_, [&](peer* p) {
    receive_worker* own_worker = p->own_worker.get();
    const auto mine = [&](const receive& r) { return r.on == own_worker; };
    if (p->pending.load() > 0 || std::ranges::any_of(receives_, mine)) return false;
    std::erase(peer_receive_workers_, own_worker);
    // Explicitly: a forked child may hold another descriptor of the same file.
    epoll_ctl(event_fd_, EPOLL_CTL_DEL, own_worker->event_fd(), nullptr);
    p->own_worker.reset();
    return true;
  });
}

}  // namespace troupe::transport::ucx
