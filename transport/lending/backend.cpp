// Connections: what peers are, what is lent to them and why, how they end.
#include "troupe/transport/lending/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/transport/lending/lending_transport.hpp"
#include "troupe/transport/lending/lent_payloads.hpp"
#include "troupe/transport/regions/mapped_region.hpp"

namespace troupe::transport {

namespace lending {

namespace {

constexpr std::chrono::milliseconds fetch_limit{500};

std::string why_not_lent(const peer& to) {
  return to.why_not.empty() ? "it has not mapped this node's memory yet" : to.why_not;
}

}  // namespace

backend::backend(lending_options options,
                 const std::function<std::unique_ptr<transport>(sink&, payload_pool&)>& make_inner,
                 sink& to, payload_pool& pool)
    : options_(std::move(options)), to_(to), process_(this_process()) {
  random_bytes(node_);
  if (!copy_on_write::is_safe()) {
    why_not_here_ = "libtorch does not use this program's copy-on-write functions";
    log().warn("rank {}: tensors are copied, not lent: {}", options_.rank, why_not_here_);
  } else if (options_.memory) {
    if (options_.most_lent == 0) options_.most_lent = options_.memory->limit() / 2;
    try {
      server_ = std::make_unique<descriptor_server>(options_.memory->read_only_descriptor(),
                                                    options_.memory->size(), options_.memory->id(),
                                                    options_.secret, descriptor_for_writers());
    } catch (const transport_error& e) {
      why_not_here_ = e.fault().text;
      log().warn("rank {}: its tensors are copied, not lent: {}", options_.rank, why_not_here_);
    }
  }
  inner_ = make_inner(*this, pool);
}

backend::~backend() {
  tell_alone();
  orphans_.stop_watching();
  // Before the inner transport ends: whoever drops a tensor wakes it until then.
  for (auto& p : connections_) part(*p, false);
  orphans_.park_all();
  for (auto& p : connections_)
    if (p->borrowed) p->borrowed->silence();
}

std::vector<std::byte> backend::address() const {
  lending::address mine;
  mine.node = node_;
  mine.process = process_;
  mine.lends = server_ != nullptr;
  if (server_) mine.region = server_->address();
  mine.devices = devices_that_open();
  mine.inner = inner_->address();
  return encode(mine, options_.secret);
}

void backend::add_peer(rank_t rank, std::span<const std::byte> bytes) {
  if (rank >= slot_table::most)
    throw transport_error("cannot connect to " + rank_name(rank) + ": the rank is too large");
  lending::address where;
  try {
    where = decode(bytes, options_.secret);
  } catch (const decode_error& e) {
    throw transport_error("cannot connect to " + rank_name(rank) + ": " + e.fault().text);
  }
  const auto* const known = find(rank);
  if (known && !known->lost) return inner_->add_peer(rank, where.inner);  // says what is wrong
  auto p = std::make_shared<peer>();
  p->rank = rank;
  p->node = where.node;
  p->process = where.process;
  p->why_not = apart(process_, where.process);
  p->near = p->why_not.empty();
  p->devices.set(std::move(where.devices));
  p->same_host = process_.host == where.process.host;
  if (p->near) {
    p->lent = std::make_shared<loan_book>(options_.most_lent);
    if (!server_) p->why_not = why_not_here_.empty() ? "this node has no arena" : why_not_here_;
    if (where.lends && copy_on_write::is_safe()) map_region_of(*p, where.region);
  }
  peer* before = nullptr;
  slot* place = nullptr;
  {
    // Before the inner transport knows it: its messages may come at once.
    const std::lock_guard lock(mutex_);
    connections_.push_back(p);
    place = peers_.find(rank);
    if (!place) {
      auto made = std::make_unique<slot>(rank);
      place = made.get();
      peers_.set(std::move(made));
    }
    before = place->now.exchange(p.get());
  }
  // Those that write to the one before fail soon: it is lost.
  while (place->senders.load() != 0) std::this_thread::yield();
  p->added = true;  // before its messages come
  try {
    inner_->add_peer(rank, where.inner);
  } catch (...) {
    p->added = false;
    place->now.store(before, std::memory_order_release);
    part(*p, false);
    throw;
  }
  // Only now: it can be told.
  if (p->lent) publish_loans(node_, p->node, p->lent);
  if (p->near) {
    const std::lock_guard lock(mutex_);
    for (const auto& other : connections_)
      if (!over_.contains(p->node) && other->known && !other->lost)
        p->words.add(entry_of(entry_kind::can_read_of, other->node));
  }
  if (p->borrowed) p->words.add({.kind = entry_kind::can_read});
  if (p->borrowed && p->borrowed->is_writable()) p->words.add({.kind = entry_kind::can_write});
  if (p->words.any()) something_to_tell();
}

unique_fd backend::descriptor_for_writers() const {
  return options_.hand_over ? options_.memory->writable_descriptor() : unique_fd();
}

// So that it can lend and hand over its tensors. Without it they are copied.
void backend::map_region_of(peer& p, const region_address& where) {
  try {
    const auto deadline = std::chrono::steady_clock::now() + fetch_limit;
    auto mapped = options_.hand_over
                      ? fetch_mappings(where, options_.secret, deadline)
                      : region_mappings{fetch_region(where, options_.secret, deadline), nullptr};
    p.borrowed = std::make_shared<borrow_book>(
        std::move(mapped.readable), [this] { something_to_tell(); }, std::move(mapped.writable));
  } catch (const transport_error& e) {
    log().warn("rank {}: tensors of {} are copied: {}", options_.rank, rank_name(p.rank),
               e.fault().text);
  }
}

void backend::close_peer(rank_t rank, bool force) {
  if (auto* const p = find(rank)) {
    if (!force) tell(*p);
    part(*p, false);
  }
  inner_->close_peer(rank, force);
}

std::vector<route> backend::routes() const {
  auto all = inner_->routes();
  for (auto& one : all) {
    const auto* const p = find(one.peer);
    if (!p || p->lost) continue;
    if (options_.only_given && p->may_hand)
      one.lanes += fmt::format(", tensors of {} bytes and more handed over", options_.lend_from);
    else if (options_.only_given)
      continue;
    else if (p->may_lend)
      one.lanes += fmt::format(", tensors of {} bytes and more lent", options_.lend_from);
    else if (p->near)
      one.reason += "; tensors are copied: " + why_not_lent(*p);
  }
  return all;
}

std::vector<tensor_way> backend::ways_to(rank_t rank) const {
  auto all = inner_->ways_to(rank);
  const auto* const p = find(rank);
  if (!p || p->lost || all.empty()) return all;
  const auto from = options_.lend_from;
  if (options_.only_given) {
    if (p->may_hand)
      all.push_back({"moved in by its only owner, or a fresh result", from, 0, "handed over",
                     "rpc_options::lend_tensors is off; the node may write to this one's memory"});
    return all;
  }
  if (!p->may_lend) {
    for (auto& one : all) one.reason += "; not lent: " + why_not_lent(*p);
    return all;
  }
  const auto copied = std::max(from, options_.copy_from);
  const std::string other = "elsewhere, or a part of its storage";
  const auto sent = all.front();
  all.front().below = from;
  all.push_back({"all of its storage, in the arena", from, 0, "lent where it lies",
                 "the node maps this one's memory"});
  if (p->may_hand)
    all.push_back({"the same, with nobody else who refers to it", from, 0, "handed over",
                   "the node may write to this one's memory"});
  all.push_back({"all of a storage that another node has lent", from, 0, "passed on",
                 "both map the memory of that node"});
  if (options_.strict) {
    all.push_back({other, from, 0, "refused", "rpc_options::lend_strictly"});
    return all;
  }
  if (copied > from) all.push_back({other, from, copied, sent.way, sent.reason});
  all.push_back({other, copied, 0,
                 p->may_hand ? "copied once, then handed over" : "copied once, then lent",
                 "the next write to a storage that is lent copies all of it"});
  return all;
}

std::string backend::why_not_leased(const peer& to, const memory_place& here,
                                    const memory_place& there) const {
  if (to.lost) return "it is not reached";
  if (!to.may_lend) return why_not_lent(to);
  if (to.opens_none) return "the node could not open such memory";
  if (is_here(to)) return "it is a node of this process, which cannot open its own memory";
  return to.devices.why_not(here, there);
}

// Instead of copying through host memory. Soon after the start the peer has yet to map this node's
// memory.
bool backend::must_lease(const peer& to) const noexcept {
  return options_.strict && to.same_host && (to.may_lend || !to.why_not.empty()) && !to.opens_none;
}

tensor_way backend::device_way(rank_t rank, const memory_place& here,
                               const memory_place& there) const {
  const auto* const p = find(rank);
  if (!p) return transport::device_way(rank, here, there);
  auto why = why_not_leased(*p, here, there);
  if (why.empty())
    return {"", 0, 0, "leased, and copied from device to device",
            "the node opens memory of this process's device"};
  return {"", 0, 0, must_lease(*p) ? "refused" : "copied through host memory", std::move(why)};
}

bool backend::leases(rank_t rank, const memory_place& here, const memory_place& there,
                     const std::string& problem) const {
  auto* const p = find(rank);
  if (!p || p->lost) return false;
  const auto why = problem.empty() ? why_not_leased(*p, here, there) : problem;
  if (why.empty()) return true;
  const bool too_early = !p->may_lend && p->why_not.empty();
  const auto bit = static_cast<unsigned>(not_lent::by_lease);
  const bool said = (p->said.load(std::memory_order_relaxed) & bit) != 0;
  if (too_early || (said && !options_.strict)) return false;
  const auto text = fmt::format("a tensor on {} for {} of {} is copied through host memory: {}",
                                to_string(here), to_string(there), rank_name(rank), why);
  if (must_lease(*p))
    throw transport_error(text + ". rpc_options::lend_strictly refuses to copy it");
  if ((p->said.fetch_or(bit, std::memory_order_relaxed) & bit) == 0)
    log().info("rank {}: {}; such tensors are", options_.rank, text);
  return false;
}

// Whatever the reason, the next message would be as unreadable as the one that has said it.
void backend::opens_none(peer& from) {
  if (from.opens_none.exchange(true)) return;
  from.said.fetch_or(static_cast<unsigned>(not_lent::by_lease), std::memory_order_relaxed);
  log().warn(
      "rank {}: {} could not open memory of a device of this process; what is on devices is copied "
      "through host memory for it from now on",
      options_.rank, rank_name(from.rank));
}

bool backend::holds_leases() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      connections_, [](const auto& p) { return !p->lost && p->lent && p->lent->leases() > 0; });
}

bool backend::would_lend(rank_t rank, const std::byte* data, std::size_t size,
                         std::size_t beside) const {
  const auto* const p = find(rank);
  return p && p->may_lend && !options_.only_given && size >= options_.lend_from &&
         is_aligned(data) && options_.memory->owns(data) && p->lent->has_room_for(size + beside);
}

counters backend::count() const {
  counters all;
  all.strangers = inner_->count().strangers;
  const std::lock_guard lock(mutex_);
  for (const auto& p : connections_) {
    all.messages_sent += p->messages_sent.load(std::memory_order_relaxed);
    all.messages_received += p->messages_received.load(std::memory_order_relaxed);
    all.bytes_sent += p->bytes_sent.load(std::memory_order_relaxed);
    all.bytes_received += p->bytes_received.load(std::memory_order_relaxed);
    if (p->lent) all.lent += p->lent->bytes();
    if (p->borrowed) all.borrowed += p->borrowed->bytes();
  }
  return all;
}

}  // namespace lending

std::unique_ptr<transport> make_lending_transport(
    lending_options options,
    const std::function<std::unique_ptr<transport>(sink&, payload_pool&)>& make_inner, sink& to,
    payload_pool& pool) {
  return std::make_unique<lending::backend>(std::move(options), make_inner, to, pool);
}

}  // namespace troupe::transport
