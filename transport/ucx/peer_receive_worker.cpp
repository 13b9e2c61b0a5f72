// UCX gives a worker one queue in shared memory for all senders of its host. A sender that is
// killed between taking a place there and marking it as written leaves a place that is never read,
// and nothing behind it is. So each peer on the host has a queue of its own here, and that ends
// with it.
//
// An address tells of the common queue, since it is written before the peers are known. The hello
// goes there, and with it the address of the sender's own queue for the receiver; each of the two
// goes over to the other's as soon as it knows it. `assembly` orders what comes by two ways.

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

// A queue that others fill all the time shall not keep `progress` for ever.
constexpr int most_turns = 4096;

}  // namespace

// For what comes from `p`. Returns why not, where there is none.
std::string backend::make_own_queue(peer& p) {
  try {
    auto own = std::make_unique<queue>(*this, options_, reach::shared_memory, p.shape);
    set_handlers(*own);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(event_fd_, EPOLL_CTL_ADD, own->from.event_fd(), &event) != 0)
      throw transport_error(
          with_descriptor_shortage(std::string("epoll_ctl failed: ") + std::strerror(errno)));
    p.own = std::move(own);
    return "";
  } catch (const error& e) {
    return std::string("what it sends shares a queue with others, and breaks with them: ") +
           e.what();
  }
}

void backend::say_way(peer& p) try {
  const auto way = make_way(options_.key, p.token, p.own->from.address(false));
  for (std::size_t offset = 0; offset < way.size(); offset += way_header::part) {
    way_header h{p.token,
                 options_.rank,
                 static_cast<std::uint16_t>(offset),
                 static_cast<std::uint16_t>(way.size()),
                 {}};
    std::copy_n(way.begin() + static_cast<std::ptrdiff_t>(offset),
                std::min(way_header::part, way.size() - offset), h.bytes.begin());
    if (const auto status = say(p.ep, am_way, h); status != UCS_OK) {
      trouble_with(p, broken("the way to a queue could not be told", status), true);
      return;
    }
  }
}

catch (const error& e) {  // of UCX, which has no address of the queue to give
  trouble_with(p, {loss_kind::broken, e.what()});
}

// From now on what is sent goes into the queue that the peer has for this node alone.
void backend::go_over(connection& c) {
  peer& p = *c.back;
  if (p.first_ep) return;
  const auto address = address_in(options_.key, c.token, c.way);
  if (!p.shared || address.empty()) throw decode_error("the way to its queue makes no sense");
  c.way_known = false;
  // The common queue has another shape, and goes on serving.
  if (!p.own) return;
  const ucp_ep_h first = p.ep;
  // Where that fails it has ended, which others tell, or the common queue goes on serving.
  if (const auto status = open_endpoint(p, *p.own, address); status == UCS_OK)
    p.first_ep = first;
  else
    log().debug("rank {}: its queue cannot be used: {}", p.rank, ucs_status_string(status));
}

// What a peer has sent before it went may still lie in the queues.
void backend::take_what_is_left(const peer& p) {
  for (int turns = 0; turns < most_turns; ++turns) {
    if (common_->progress() + (p.own ? p.own->progress() : 0) == 0) break;
    if (!ready_.empty()) deliver();
  }
  if (!ready_.empty()) deliver();
}

// What was sent before, by the common queue, may still lie there.
unsigned backend::take_goodbyes() {
  int turns = 0;
  while (turns < most_turns && common_->progress() != 0) ++turns;
  if (turns == most_turns) return 0;  // `something_to_do` sees to it
  const auto goodbyes = std::exchange(goodbyes_, {});
  for (const auto& c : goodbyes)
    if (!c->over) trouble_with(c, {loss_kind::left, "it closed the connection"});
  return static_cast<unsigned>(goodbyes.size());
}

// Pre: no endpoint is being closed.
void backend::retire_queues() {
  std::erase_if(retiring_, [&](peer* p) {
    queue* own = p->own.get();
    const auto mine = [&](const receive& r) { return r.on == own; };
    if (p->pending.load() > 0 || std::ranges::any_of(receives_, mine)) return false;
    std::erase(own_queues_, own);
    // Explicitly: a forked child may hold another descriptor of the same file.
    epoll_ctl(event_fd_, EPOLL_CTL_DEL, own->from.event_fd(), nullptr);
    p->own.reset();
    return true;
  });
}

}  // namespace troupe::transport::ucx
