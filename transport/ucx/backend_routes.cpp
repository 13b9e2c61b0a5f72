// Which lanes a peer is reached by, and what has gone over them.
#include <algorithm>
#include <string>

#include "troupe/messages/base/log.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/lanes.hpp"

namespace troupe::transport::ucx {

void backend::describe_lanes(peer& p) {
  const lanes l = lanes_of(p.ep);
  p.lanes = l.text;
  // Where a piece does not fit into one place of the queue, UCX would cut it again: better to read
  // it.
  const bool reads = options_.bulk == ucx_bulk::cma ||
                     (options_.bulk == ucx_bulk::automatic && l.cma && p.shape.bytes < chunk_size);
  if (l.shared_memory && !reads) p.copy_limit = std::min(options_.copy_limit, longest_chunked);
  p.can_read = l.cma && options_.bulk == ucx_bulk::automatic;
  std::string slow;
  if (p.shared && l.shared_memory && p.id != id_) slow = make_peer_receive_worker(p);
  if (p.shared && !l.shared_memory)
    slow = "shared memory cannot be used";
  else if (p.shared && options_.bulk != ucx_bulk::copies && !l.cma)
    slow = "process_vm_readv is not permitted, so large payloads are copied twice";
  else if (!p.shared && p.same_host)
    p.place += ", TCP asked for";
  if (!slow.empty()) {
    p.place += ", but " + slow;
    log().warn("{} is reached by {}: {}", rank_name(p.rank), p.lanes, p.place);
  } else {
    log().debug("{} is reached by {}: {}", rank_name(p.rank), p.lanes, p.place);
  }
}

namespace {

std::string slow_copies(const peer& p) {
  if (!p.can_read || !p.copies.slow()) return "";
  return ", but its core shares no cache with this one: copies reach " +
         std::to_string(p.copies.speed()).substr(0, 3) + " GB/s, so cma takes " +
         std::to_string(copy_speed::smallest >> 10) + " KiB and more";
}

}  // namespace

std::vector<route> backend::routes() const {
  std::vector<route> result;
  const std::lock_guard lock(mutex_);
  for (const auto& p : peers_.all())
    if (p->status.load() == peer::state::live)
      result.push_back({p->rank, "ucx", p->lanes, p->place + slow_copies(*p)});
  return result;
}

counters backend::count() const {
  counters c;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& p : peers_.all()) {
      c.messages_sent += p->gate.load(std::memory_order_relaxed) / peer::one_message;
      c.bytes_sent += p->bytes_sent.load(std::memory_order_relaxed);
    }
  }
  c.messages_received = messages_received_.load(std::memory_order_relaxed);
  c.bytes_received = bytes_received_.load(std::memory_order_relaxed);
  c.strangers = strangers_.load(std::memory_order_relaxed);
  return c;
}

}  // namespace troupe::transport::ucx
