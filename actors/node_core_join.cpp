// How a node comes to be: rendezvous, transport, engine and actor system, in that order.

#include <unistd.h>

#include <cstring>
#include <random>
#include <set>

#include "actors/node_core.hpp"
#include "actors/threads/thread_engine.hpp"
#include "transport/rendezvous/meeting.hpp"
#include "transport/rendezvous/rendezvous.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace troupe {

/// Received tensors land in recycled memory.
struct node_core::pool final : transport::payload_pool {
  std::shared_ptr<std::byte> allocate(std::size_t size, memory_place place) override {
    if (place.where != memory_place::kind::host)
      throw transport_error("tensors on a GPU cannot be received yet");
    return memory.allocate(size);
  }

  storage_pool memory;
};

node_core::node_core(node_identity identity, std::vector<worker_info> workers,
                     std::vector<std::uint64_t> incarnations, const rpc_options& options)
    : identity_(identity),
      workers_(std::move(workers)),
      incarnations_(std::move(incarnations)),
      rpc_timeout_ms_(options.rpc_timeout.count()),
      pool_(std::make_shared<pool>()),
      process_(getpid()) {
  if (options.rpc_timeout.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  for (const auto& worker : workers_) by_name_.emplace(worker.name, worker.id);
  engine_ = std::make_shared<thread_engine>(static_cast<dispatcher&>(*this), engine_options{});
  mail_ = std::make_unique<mail>(identity_, *engine_);
  remoting_ =
      std::make_shared<remoting>(*mail_, engine_, [names = workers_](transport::rank_t rank) {
        return rank < names.size() ? names[rank].name : "rank " + std::to_string(rank);
      });
  quiescence_ = std::make_unique<quiescence>(*mail_, *engine_);
}

std::shared_ptr<node_core> node_core::join(const rpc_options& options) {
  transport::rendezvous_options meet;
  meet.init_method = options.init_method;
  meet.rank = options.rank;
  meet.world_size = options.world_size;
  meet.name = options.name;
  meet.timeout = options.init_timeout;
  meet.job = options.job;
  std::shared_ptr<node_core> core;
  std::unique_ptr<transport::transport> net;
  auto roster = transport::rendezvous(meet, [&](const transport::pre_roster& known) {
    std::vector<worker_info> workers;
    std::vector<std::uint64_t> incarnations;
    for (const auto& member : known.members) {
      workers.push_back({member.name, member.rank});
      incarnations.push_back(member.incarnation);
    }
    node_identity self{known.rank, known.world_size, known.job_id, incarnations[known.rank]};
    core.reset(new node_core(self, std::move(workers), std::move(incarnations), options),
               &node_core::destroy);
    transport::ucx_options ucx;
    ucx.rank = known.rank;
    ucx.one_host = known.all_on_one_host;
    ucx.net_devices = options.net_devices;
    const auto proof = known.secret.subkey("transport").sign({});
    static_assert(sizeof proof == sizeof ucx.key);
    std::memcpy(ucx.key.data(), &proof, sizeof proof);
    ucx.kind = options.transport == backend::tcp             ? transport::ucx_kind::tcp
               : options.transport == backend::shared_memory ? transport::ucx_kind::shared_memory
                                                             : transport::ucx_kind::automatic;
    net = transport::make_ucx_transport(ucx, core->engine_->as_sink(), *core->pool_);
    return net->address();
  });
  for (const auto& member : roster.members)
    if (member.rank != roster.rank) net->add_peer(member.rank, member.address);
  core->leave_ = [roster](std::chrono::milliseconds wait_for_others) mutable {
    roster.close(wait_for_others);
  };
  core->open(std::move(net));
  return core;
}

std::vector<std::shared_ptr<node_core>> node_core::join_loopback(
    const std::vector<std::string>& names, const rpc_options& options) {
  auto network = std::make_shared<transport::loopback_network>();
  std::random_device random;
  const auto job = std::uint64_t{random()} << 32 | random();
  std::vector<worker_info> workers;
  std::set<std::string_view> known;
  for (const auto& name : names) {
    if (const auto problem = transport::worker_name_problem(name); !problem.empty())
      throw invalid_argument("a worker's name " + problem);
    if (!known.insert(name).second) throw invalid_argument("two workers are called '" + name + "'");
  }
  for (const auto& name : names)
    workers.push_back({name, static_cast<std::uint32_t>(workers.size())});
  std::vector<std::uint64_t> incarnations(names.size(), 1);
  const auto size = static_cast<transport::rank_t>(names.size());
  std::vector<std::shared_ptr<node_core>> cores;
  std::vector<std::unique_ptr<transport::transport>> nets;
  for (transport::rank_t rank = 0; rank < size; ++rank) {
    cores.emplace_back(new node_core({rank, size, job, 1}, workers, incarnations, options),
                       &node_core::destroy);
    nets.push_back(transport::make_loopback_transport(
        network, rank, cores.back()->engine_->as_sink(), *cores.back()->pool_));
  }
  for (transport::rank_t a = 0; a < size; ++a)
    for (transport::rank_t b = 0; b < size; ++b)
      if (a != b) nets[a]->add_peer(b, nets[b]->address());
  for (transport::rank_t rank = 0; rank < size; ++rank) cores[rank]->open(std::move(nets[rank]));
  return cores;
}

void node_core::open(std::unique_ptr<transport::transport> net) {
  net_ = std::move(net);
  mail_->attach(*net_, *pool_);
  host_ = std::make_unique<caf_host>(remoting_, identity_);
  std::vector<caf::node_id> nodes;
  for (transport::rank_t rank = 0; rank < identity_.world_size; ++rank)
    nodes.push_back(caf_host::id_of(identity_.job, incarnations_[rank], rank));
  remoting_->attach(host_->system(), std::move(nodes));
  // Only now: messages may be waiting already.
  open_ = true;
  engine_->start(*net_);
}

}  // namespace troupe
