#include "troupe/transport/loopback/loopback.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/delivery/reassembly.hpp"
#include "troupe/transport/loopback/loopback_inbox.hpp"

namespace troupe::transport {

namespace {

using namespace loopback;

}  // namespace

struct loopback_network::state {
  std::mutex mutex;
  std::uint64_t next_id = 1;
  std::map<rank_t, std::pair<node_key, std::shared_ptr<inbox>>> nodes;
};

loopback_network::loopback_network() : state_(std::make_unique<state>()) {}
loopback_network::~loopback_network() = default;

class loopback_node final : public transport {
public:
  loopback_node(std::shared_ptr<loopback_network> network, rank_t rank, sink& to,
                payload_pool& pool)
      : network_(std::move(network)), sink_(to), pool_(pool), inbox_(std::make_shared<inbox>()) {
    auto& net = *network_->state_;
    const std::lock_guard lock(net.mutex);
    key_.rank = rank;
    key_.id = net.next_id++;
    if (!net.nodes.try_emplace(rank, key_, inbox_).second)
      throw invalid_argument(rank_name(rank) + " is on this loopback network already");
  }

  ~loopback_node() override {
    {
      auto& net = *network_->state_;
      const std::lock_guard lock(net.mutex);
      net.nodes.erase(key_.rank);
    }
    for (const auto& watcher : inbox_->close())
      if (const auto other = watcher.lock()) send_leave_notice(*other);
  }

  std::vector<std::byte> address() const override {
    const auto bytes = std::as_bytes(std::span(&key_, 1));
    return {bytes.begin(), bytes.end()};
  }

  void add_peer(rank_t rank, std::span<const std::byte> address) override {
    const std::string who = rank_name(rank);
    node_key key;
    if (address.size() != sizeof key)
      throw transport_error("cannot connect to " + who + ": this is not a loopback address");
    std::memcpy(&key, address.data(), sizeof key);
    if (key.magic != key_.magic || key.rank != rank)
      throw transport_error("cannot connect to " + who + ": this is not its loopback address");
    std::shared_ptr<inbox> there;
    {
      auto& net = *network_->state_;
      const std::lock_guard lock(net.mutex);
      const auto at = net.nodes.find(rank);
      if (at == net.nodes.end() || at->second.first != key)
        throw transport_error("cannot connect to " + who + ": it has left the loopback network");
      there = at->second.second;
    }
    {
      const std::lock_guard lock(mutex_);
      const auto at = peers_.find(rank);
      if (at != peers_.end() && at->second.lost.empty())
        throw transport_error(who + " is connected already; close it first");
      if (at != peers_.end() && at->second.key == key)
        throw transport_error(who + " was lost and cannot be added again with the same address");
      peers_.insert_or_assign(rank, peer{key, there, 0, {}});
      added_.push_back(key);
    }
    if (!there->watch(inbox_)) inbox_->put(one({key, leave_notice{}}));
    wake();
  }

  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    if (payloads.size() > max_payloads)
      throw invalid_argument("a message can have " + std::to_string(max_payloads) +
                             " payloads, not " + std::to_string(payloads.size()));
    const bool more = !payloads.empty();
    const std::lock_guard lock(mutex_);
    const auto at = peers_.find(rank);
    if (at == peers_.end()) throw transport_error(rank_name(rank) + " was never added");
    peer& p = at->second;
    if (!p.lost.empty()) throw peer_lost(rank_name(rank) + " is lost: " + p.lost);
    std::uint64_t bytes = envelope.size();
    std::vector<event> events;
    events.reserve(1 + payloads.size());
    events.emplace_back(key_,
                        envelope_event{p.sequence, order, payloads.size(), std::move(envelope)});
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      bytes += payloads[i].size;
      events.emplace_back(key_, payload_event(p.sequence, i, std::move(payloads[i]), pending_));
    }
    if (!p.to->put(std::move(events)))
      throw peer_lost(rank_name(rank) + " is lost: it left the loopback network");
    ++p.sequence;
    ++counters_.messages_sent;
    counters_.bytes_sent += bytes;
    return more;
  }

  unsigned progress() override {
    admit();
    inbox_->take(taken_);
    for (auto& e : taken_) take(e);
    unsigned n = static_cast<unsigned>(taken_.size());
    taken_.clear();
    if (!ready_.empty()) {
      n += static_cast<unsigned>(ready_.size());
      count_received();
      for (auto& message : ready_) sink_.on_message(std::move(message));
      ready_.clear();
    }
    for (auto& [key, why] : std::exchange(troubles_, {})) lose(key, std::move(why));
    return n;
  }

  int event_fd() const override { return inbox_->fd(); }
  bool arm() override { return inbox_->arm(); }
  void wake() override { inbox_->wake(); }
  bool idle() const override { return pending_->load() == 0; }

  void close_peer(rank_t rank, bool) override {
    const std::lock_guard lock(mutex_);
    const auto at = peers_.find(rank);
    if (at == peers_.end() || !at->second.lost.empty()) return;
    at->second.lost = "this node closed the connection";
    send_leave_notice(*at->second.to);
    closed_.push_back(at->second.key);
    wake();
  }

  std::vector<route> routes() const override {
    std::vector<route> result;
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, p] : peers_)
      if (p.lost.empty()) result.push_back({rank, "loopback", "memory", "same process"});
    return result;
  }

  counters count() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

private:
  struct peer {
    node_key key;
    std::shared_ptr<inbox> to;
    std::uint64_t sequence = 0;
    std::string lost;  // why; empty while it is there
  };

  struct inbound {
    explicit inbound(rank_t from) : parts(from) {}
    reassembly parts;
    std::vector<incoming_message> held;  // until it is added
    bool added = false;
    bool over = false;
    peer_loss why;  // it is over
  };

  static std::vector<event> one(event&& e) {
    std::vector<event> events;
    events.push_back(std::move(e));
    return events;
  }

  void send_leave_notice(inbox& to) const { to.put(one({key_, leave_notice{}})); }

  inbound& from(const node_key& key) { return inbound_.try_emplace(key, key.rank).first->second; }

  // Starts delivery from peers that were added and stops it for those that were closed.
  void admit() {
    if (!changed()) return;
    std::vector<node_key> added;
    std::vector<node_key> closed;
    {
      const std::lock_guard lock(mutex_);
      added.swap(added_);
      closed.swap(closed_);
    }
    for (const auto& key : added) {
      inbound& in = from(key);
      in.added = true;
      for (auto& message : in.held) ready_.push_back(std::move(message));
      in.held.clear();
      if (in.over) troubles_.emplace_back(key, in.why);
    }
    for (const auto& key : closed) from(key).over = true;
  }

  bool changed() const {
    const std::lock_guard lock(mutex_);
    return !added_.empty() || !closed_.empty();
  }

  void take(event& e) {
    inbound& in = from(e.from);
    if (in.over) return;
    auto& out = in.added ? ready_ : in.held;
    try {
      if (auto* envelope = std::get_if<envelope_event>(&e.what)) {
        in.parts.envelope(envelope->sequence, envelope->order, envelope->payloads,
                          std::move(envelope->bytes), out);
      } else if (auto* payload = std::get_if<payload_event>(&e.what)) {
        in.parts.payload(payload->sequence, payload->index, copy(payload->payload), out);
      } else {
        end(e.from, in, peer_left());
      }
    } catch (const std::exception& failure) {
      end(e.from, in, {loss_kind::broken, failure.what()});
    }
  }

  void end(const node_key& key, inbound& in, peer_loss&& why) {
    in.over = true;
    in.why = std::move(why);
    if (in.added) troubles_.emplace_back(key, in.why);
  }

  incoming_payload copy(const outgoing_payload& from) {
    incoming_payload to;
    to.size = from.size;
    to.place = from.place;
    if (from.place.where != memory_place::kind::host)
      throw transport_error("the loopback network carries host memory only");
    if (from.size == 0) return to;
    to.data = pool_.allocate(from.size, from.place);
    std::memcpy(to.data.get(), from.data, from.size);
    return to;
  }

  void count_received() {
    const std::lock_guard lock(mutex_);
    counters_.messages_received += ready_.size();
    for (const auto& message : ready_) {
      counters_.bytes_received += message.envelope.size();
      for (const auto& payload : message.payloads) counters_.bytes_received += payload.size;
    }
  }

  void lose(const node_key& key, peer_loss&& why) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = peers_.find(key.rank);
      if (at == peers_.end() || at->second.key != key || !at->second.lost.empty()) return;
      at->second.lost = why.text;
      send_leave_notice(*at->second.to);
    }
    sink_.on_peer_lost(key.rank, std::move(why));
  }

  const std::shared_ptr<loopback_network> network_;
  sink& sink_;
  payload_pool& pool_;
  const std::shared_ptr<inbox> inbox_;
  node_key key_;
  const std::shared_ptr<std::atomic<std::size_t>> pending_ =
      std::make_shared<std::atomic<std::size_t>>(0);

  // Taken before that of another node's inbox, under which nothing is locked.
  mutable std::mutex mutex_;
  std::unordered_map<rank_t, peer> peers_;
  std::vector<node_key> added_;
  std::vector<node_key> closed_;
  counters counters_;

  // Used by the progressing thread only.
  std::map<node_key, inbound> inbound_;
  std::vector<event> taken_;
  std::vector<incoming_message> ready_;
  std::vector<std::pair<node_key, peer_loss>> troubles_;
};

std::unique_ptr<transport> make_loopback_transport(std::shared_ptr<loopback_network> network,
                                                   rank_t rank, sink& to, payload_pool& pool) {
  return std::make_unique<loopback_node>(std::move(network), rank, to, pool);
}

}  // namespace troupe::transport
