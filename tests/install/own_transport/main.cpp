// A transport of a program's own, made of the installed headers alone: nodes of one process put
// messages into one another's boxes. own_transport: two nodes call one another over it.
#include <ATen/ATen.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <troupe/transport.hpp>
#include <troupe/troupe.hpp>

using troupe::transport::peer_loss;
using troupe::transport::rank_name;
using troupe::transport::rank_t;

class box_transport final : public troupe::transport::transport {
public:
  box_transport(const troupe::transport_request& request, std::size_t most)
      : rank_(request.rank), most_(most), to_(request.to), pool_(request.pool) {
    const std::lock_guard lock(mutex_);
    boxes_[rank_] = this;
  }
  ~box_transport() override {
    const std::lock_guard lock(mutex_);
    boxes_.erase(rank_);
    for (const auto peer : peers_) put(peer, {rank_, {}, {}, troupe::transport::peer_left()});
    ::close(event_);
  }

  std::vector<std::byte> address() const override { return {std::byte{1}}; }

  void add_peer(rank_t peer, std::span<const std::byte>) override {
    const std::lock_guard lock(mutex_);
    peers_.insert(peer);
    lost_.erase(peer);
    signal();  // something of it may have come before
  }

  bool send(rank_t peer, std::uint64_t, troupe::frame&& envelope,
            std::vector<troupe::transport::outgoing_payload>&& payloads) override {
    const std::lock_guard lock(mutex_);
    if (!peers_.contains(peer)) {
      if (lost_.contains(peer)) throw troupe::peer_lost(rank_name(peer) + " is lost");
      throw troupe::transport_error(rank_name(peer) + " was never added");
    }
    ++counted_.messages_sent;
    counted_.bytes_sent += envelope.size();
    for (const auto& payload : payloads) counted_.bytes_sent += payload.size;
    put(peer, {rank_, std::move(envelope), std::move(payloads), {}});
    return false;
  }

  unsigned progress() override {
    std::uint64_t any;
    [[maybe_unused]] const auto read = ::read(event_, &any, sizeof any);
    std::deque<item> taken;
    {
      const std::lock_guard lock(mutex_);
      for (auto at = box_.begin(); at != box_.end() && taken.size() < most_;) {
        if (!peers_.contains(at->from)) {
          ++at;  // until it is added
          continue;
        }
        if (at->lost)
          lose(at->from);
        else
          count_arrival(*at);
        taken.push_back(std::move(*at));
        at = box_.erase(at);
      }
    }
    for (auto& one : taken) {
      if (one.lost) {
        to_.on_peer_lost(one.from, *one.lost);
        continue;
      }
      troupe::transport::incoming_message message{one.from, std::move(one.envelope), {}};
      for (const auto& payload : one.payloads) {
        auto memory = pool_.allocate(payload.size, payload.place);
        if (payload.size > 0) std::memcpy(memory.get(), payload.data, payload.size);
        message.payloads.push_back({std::move(memory), payload.size, payload.place});
      }
      to_.on_message(std::move(message));
    }
    return static_cast<unsigned>(taken.size());
  }

  int event_fd() const override { return event_; }
  bool arm() override {
    const std::lock_guard lock(mutex_);
    for (const auto& one : box_)
      if (peers_.contains(one.from)) return false;
    return true;
  }
  void wake() override { signal(); }
  bool idle() const override { return true; }

  void close_peer(rank_t peer, bool) override {
    const std::lock_guard lock(mutex_);
    if (!peers_.contains(peer)) return;
    lose(peer);
    std::erase_if(box_, [&](const item& one) { return one.from == peer; });
    put(peer, {rank_, {}, {}, troupe::transport::peer_left()});
  }

  std::vector<troupe::transport::route> routes() const override {
    const std::lock_guard lock(mutex_);
    std::vector<troupe::transport::route> all;
    for (const auto peer : peers_) all.push_back({peer, "boxes", "memory", "it is registered"});
    return all;
  }
  troupe::transport::counters count() const override {
    const std::lock_guard lock(mutex_);
    return counted_;
  }

private:
  struct item {
    rank_t from;
    troupe::frame envelope;
    std::vector<troupe::transport::outgoing_payload> payloads;
    std::optional<peer_loss> lost;
  };

  void lose(rank_t peer) {
    peers_.erase(peer);
    lost_.insert(peer);
  }
  void count_arrival(const item& one) {
    ++counted_.messages_received;
    counted_.bytes_received += one.envelope.size();
    for (const auto& payload : one.payloads) counted_.bytes_received += payload.size;
  }
  void signal() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);
  }
  static void put(rank_t to, item&& one) {
    const auto at = boxes_.find(to);
    if (at == boxes_.end()) return;
    at->second->box_.push_back(std::move(one));
    at->second->signal();
  }

  static inline std::mutex mutex_;  // of all boxes
  static inline std::map<rank_t, box_transport*> boxes_;

  const rank_t rank_;
  const std::size_t most_;
  troupe::transport::sink& to_;
  troupe::transport::payload_pool& pool_;
  const int event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::set<rank_t> peers_, lost_;
  std::deque<item> box_;
  troupe::transport::counters counted_;
};

std::unique_ptr<troupe::transport::transport> make_boxes(const troupe::transport_request& request) {
  std::size_t most = 16;
  for (const auto& [name, value] : request.options) {
    if (name != "most") throw troupe::invalid_argument("boxes have no option '" + name + "'");
    most = std::stoul(value);
  }
  return std::make_unique<box_transport>(request, most);
}

at::Tensor doubled(const at::Tensor& x) { return x * 2; }

troupe::node join(const std::string& meet, std::uint32_t rank,
                  const troupe::transport_options& of_transport) {
  troupe::rpc_options options;
  options.transport_name = "boxes";
  options.transport_options = of_transport;
  options.init_method = "file://" + meet;
  options.world_size = 2;
  options.rank = rank;
  return troupe::init_rpc(options);
}

int main() {
  troupe::register_transport("boxes", make_boxes);
  std::string folder = "/tmp/own_transport-XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  const auto both = [&](const std::string& name, const troupe::transport_options& with) {
    const auto meet = folder + "/" + name;
    auto other = std::async(std::launch::async, [&] { return join(meet, 1, with); });
    std::optional<troupe::node> first;
    std::string refusal;
    try {
      first = join(meet, 0, with);
    } catch (const troupe::error& e) {
      refusal = e.what();
    }
    try {
      auto second = other.get();
      const auto y = first.value().rpc_sync<&doubled>(1, at::ones({1000, 1000}));
      std::cout << "over " << first->routes().at(0).backend << ": " << y.sum().item<double>()
                << std::endl;
      auto end = std::async(std::launch::async, [&] { second.shutdown(); });
      first->shutdown();
      end.get();
    } catch (const troupe::error&) {
      std::cout << refusal << std::endl;
    }
  };
  both("good", {{"most", "4"}});
  both("bad", {{"lanes", "4"}});
  unlink((folder + "/good").c_str());
  unlink((folder + "/bad").c_str());
  rmdir(folder.c_str());
}
