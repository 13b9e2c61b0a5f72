// How a node comes to be: rendezvous, transport, engine and actor system, in that order.

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/actors/scheduler/thread_engine.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/rendezvous/join_client.hpp"
#include "troupe/transport/rendezvous/rendezvous.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"

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

node_core::node_core(const node_identity& identity, const membership_view& start,
                     const rpc_options& options, const engine_maker& make_engine)
    : identity_(identity),
      own_devices_(detail::owner_of(start.members.at(identity.rank))),
      rpc_timeout_ms_(options.rpc_timeout.count()),
      pool_(std::make_shared<pool>()),
      random_(identity.job ^ (identity.incarnation << 32 | identity.rank)),
      rules_(detail::rules_of(options)),
      operators_(options.operators),
      on_leaked_rref_(options.on_leaked_rref) {
  engine_ = make_engine(*this);
  remote_actors_ = std::make_shared<remote_actors>(identity_, engine_, table_, options);
  remote_actors_->set_interceptor(detail::make_interceptor(*this));
  for (const auto& [rank, who] : start.members) add_peer(who);
  joined_ = start.epoch;
  remote_actors_->out().set_epoch(start.epoch);
  applied_ = start.epoch;
  self_ = peers_.find(identity_.rank);
  termination_ = std::make_unique<termination_detection>(remote_actors_->out(), *engine_, peers_);
  termination_->members_changed(start.leader);
  leader_ = start.leader;
  membership_options rules;
  rules.hang_limit = options.hang_limit;
  rules.elects = options.on_leader_loss == leader_loss::elect;
  membership_ = std::make_unique<membership_actor>(start, identity_.rank, rules, *engine_,
                                                  static_cast<membership_actions&>(*this));
}

std::shared_ptr<node_core> node_core::make(const node_identity& self, const membership_view& start,
                                           const rpc_options& options,
                                           const engine_maker& make_engine) {
  std::shared_ptr<node_core> core{new node_core(self, start, options, make_engine),
                                  &node_core::destroy};
  core->remote_actors_->rrefs().attach(core);
  return core;
}

namespace {

node_core::engine_maker on_threads(const rpc_options& options) {
  engine_options how;
  how.max_threads = options.max_threads;
  how.retire_after = options.thread_idle_limit;
  return [how](dispatcher& node) { return std::make_shared<thread_engine>(node, how); };
}

// Who may join later is reckoned with when shared memory and descriptors are divided.
constexpr unsigned likely_newcomers = 8;

// `open`: what it has opened of them already.
void need_descriptors_of(std::size_t peers, std::size_t newcomers, std::size_t open = 0) {
  auto who = "for a node with " + std::to_string(peers) + " peers";
  if (newcomers > 0) who += " and room for " + std::to_string(newcomers) + " newcomers";
  const auto whole = transport::descriptors_of_node(peers + newcomers);
  transport::need_descriptors(whole - std::min(whole, open), who);
}

bool trusts_network(const rpc_options& options) {
  return options.trusted_network ||
         transport::read_trusted_network(transport::process_environment());
}

// Nobody's address is exchanged then: all ranks say so, before anything listens.
void check_hosts(const transport::pre_roster& known, const rpc_options& options) {
  if (trusts_network(options)) return;
  const auto& here = known.members.at(known.rank);
  const auto whom = [](const transport::member& one) { return "rank " + std::to_string(one.rank); };
  for (const auto& other : known.members) {
    if (other.host_id != here.host_id)
      throw transport_error(
          whom(here) + " runs on " + here.host + ", " + whom(other) + " on " + other.host +
          ": UCX's protocol between hosts lets whoever reaches its port write into a rank, without "
          "the job's secret, so it is refused. If nobody else can reach the network between these "
          "hosts, set rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1 on every rank");
    if (other.process_namespace != here.process_namespace)
      throw transport_error(
          whom(here) + " and " + whom(other) + " run on " + here.host +
          " in two process namespaces, pid:[" + std::to_string(here.process_namespace) +
          "] and pid:[" + std::to_string(other.process_namespace) +
          "], and could not see one another's end, so they would use the loopback interface: UCX's "
          "protocol there lets whoever reaches its port write into a rank, without the job's "
          "secret, so it is refused. Give the containers one process namespace (of a pod: "
          "shareProcessNamespace); or, if nobody else can reach the network, set "
          "rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1 on every rank");
  }
}

// Across process namespaces nodes of one host talk over the network.
bool all_see_one_another(const transport::pre_roster& known) {
  return known.all_on_one_host && std::ranges::all_of(known.members, [&](const auto& one) {
           return one.process_namespace == known.members.front().process_namespace;
         });
}

transport::ucx_options founders_network(const transport::pre_roster& known,
                                        const rpc_options& options, bool others_may_come) {
  transport::ucx_options ucx;
  ucx.rank = known.rank;
  const bool here_alone = known.all_on_one_host && !others_may_come;
  ucx.one_host = here_alone && all_see_one_another(known);
  if (here_alone && !ucx.one_host) ucx.net_devices = "lo";
  const auto& self = known.members.at(known.rank);
  ucx.neighbours = options.admits_newcomers ? likely_newcomers : 0;
  for (const auto& other : known.members) {
    if (other.rank == known.rank || other.host_id != self.host_id) continue;
    ++ucx.neighbours;
    if (other.rank < known.rank) ucx.speaks_for_host = false;
  }
  return ucx;
}

std::unique_ptr<transport::transport> make_ucx(transport::ucx_options ucx,
                                               const transport::job_secret& secret,
                                               const rpc_options& options, deferred_sink& parts) {
  ucx.trusted_network = trusts_network(options);
  if (!options.net_devices.empty()) ucx.net_devices = options.net_devices;
  ucx.keepalive = options.keepalive;
  ucx.tcp_limit = options.keepalive * 5 / 2;
  const auto proof = secret.subkey("transport").sign({});
  static_assert(sizeof proof == sizeof ucx.key);
  std::memcpy(ucx.key.data(), &proof, sizeof proof);
  ucx.kind = options.transport == backend::tcp             ? transport::ucx_kind::tcp
             : options.transport == backend::shared_memory ? transport::ucx_kind::shared_memory
                                                           : transport::ucx_kind::automatic;
  return transport::make_ucx_transport(ucx, parts, parts);
}

transport::rendezvous_options meeting_of(const rpc_options& options) {
  transport::rendezvous_options meet;
  meet.init_method = options.init_method;
  meet.rank = options.rank;
  meet.world_size = options.world_size;
  meet.name = options.name;
  for (const auto& alias : options.aliases) meet.name += ',' + alias;
  meet.timeout = options.init_timeout;
  meet.job = options.job;
  meet.dynamic = options.admits_newcomers;
  meet.trusted_network = options.trusted_network;
  return meet;
}

}  // namespace

std::shared_ptr<node_core> node_core::join(const rpc_options& options,
                                           const detail::device_directory& here) {
  forked::check();
  try {
    check_options(options);
    detail::check_devices(options, here);
  } catch (const error& e) {
    if (!options.joins_running) transport::decline_rendezvous(meeting_of(options), e.fault().text);
    throw;
  }
  transport::raise_descriptor_limit();
  return options.joins_running ? join_running(options, here) : found(options, here);
}

std::shared_ptr<node_core> node_core::found(const rpc_options& options,
                                            const detail::device_directory& here) {
  auto parts = std::make_unique<deferred_sink>();
  std::unique_ptr<transport::transport> net;
  auto roster = transport::rendezvous(meeting_of(options), [&](const transport::pre_roster& known) {
    // Only here: whatever is wrong with the maps, which are about others, these hear of it.
    auto devices = detail::read_device_options(options, here);
    check_hosts(known, options);
    need_descriptors_of(known.world_size - 1, options.admits_newcomers ? likely_newcomers : 0);
    const bool others_may_come = options.admits_newcomers && !known.meets_on_host_alone;
    net =
        make_ucx(founders_network(known, options, others_may_come), known.secret, options, *parts);
    return detail::write_card({std::move(devices), net->address(), detail::rules_of(options)});
  });
  membership_view start;
  for (const auto& one : roster.members)
    start.members[one.rank] = {one.rank, one.incarnation, one.name, one.address};
  try {
    detail::check_cards(start, roster.rank, options.admits_newcomers);
  } catch (...) {
    roster.close();
    throw;
  }
  auto core = make({roster.rank, roster.job_id, roster.members[roster.rank].incarnation}, start,
                   options, on_threads(options));
  core->leave_ = [roster, &peers = core->peers_](std::chrono::milliseconds limit) mutable {
    std::vector<transport::rank_t> gone;
    for (const auto& one : roster.members) {
      const auto* founder = peers.find(one.rank, one.incarnation);
      if (!founder || !founder->live()) gone.push_back(one.rank);
    }
    roster.close(limit, gone);
  };
  core->open(std::move(net), std::move(parts), start);
  if (options.admits_newcomers && roster.rank == 0)
    core->door_ = std::make_unique<transport::door_keeper>(roster.session->keys(), roster.job,
                                                           static_cast<door_client&>(*core));
  return core;
}

std::shared_ptr<node_core> node_core::join_running(const rpc_options& options,
                                                   const detail::device_directory& here) {
  const auto devices = detail::read_device_options(options, here);
  auto parts = std::make_unique<deferred_sink>();
  std::unique_ptr<transport::transport> net;
  const auto meet = meeting_of(options);
  std::size_t open = 0;
  const auto mine =
      transport::enter_job(meet, [&](transport::rank_t rank, const transport::job_secret& secret) {
        transport::ucx_options ucx;
        ucx.rank = rank;
        ucx.one_host = transport::newcomer_meets_on_this_host_alone(meet);
        ucx.neighbours = likely_newcomers;
        need_descriptors_of(1, 0);  // how many more there are is not known yet
        const auto before = transport::descriptors().open;
        net = make_ucx(std::move(ucx), secret, options, *parts);
        const auto after = transport::descriptors().open;
        open = after - std::min(before, after);
        return detail::write_card({devices, net->address(), detail::rules_of(options)});
      });
  membership_view view;
  try {
    decoder in(mine.welcome, nullptr, nullptr);
    view = read_view(in);
    in.expect_end();
  } catch (const decode_error& e) {
    throw rendezvous_error(std::string("the job's members cannot be read: ") + e.what());
  }
  const auto self = view.members.find(mine.rank);
  if (self == view.members.end())
    throw rendezvous_error("the job has let rank " + std::to_string(mine.rank) +
                           " in, but does not name it among its members");
  detail::check_cards(view, mine.rank, true);
  // Better than to lose members one by one.
  need_descriptors_of(view.members.size() - 1, 0, open);
  auto core =
      make({mine.rank, mine.job_id, self->second.incarnation}, view, options, on_threads(options));
  core->open(std::move(net), std::move(parts), view);
  return core;
}

std::vector<std::shared_ptr<node_core>> node_core::join_loopback(
    const std::vector<std::string>& names, const rpc_options& options,
    const detail::device_directory& here) {
  forked::check();
  check_options(options);
  detail::check_devices(options, here);
  const auto devices = detail::read_device_options(options, here);
  auto network = std::make_shared<transport::loopback_network>();
  std::random_device random;
  const auto job = std::uint64_t{random()} << 32 | random();
  std::set<std::string> known;
  for (const auto& text : names) {
    if (const auto problem = transport::worker_name_problem(text); !problem.empty())
      throw invalid_argument("a worker's name " + problem);
    for (const auto& name : transport::worker_names(text))
      if (!known.insert(name).second)
        throw invalid_argument("two workers are called '" + name + "'");
  }
  membership_view start;
  std::vector<std::unique_ptr<deferred_sink>> parts;
  std::vector<std::unique_ptr<transport::transport>> nets;
  for (const auto& name : names) {
    const auto rank = static_cast<transport::rank_t>(nets.size());
    parts.push_back(std::make_unique<deferred_sink>());
    nets.push_back(transport::make_loopback_transport(network, rank, *parts.back(), *parts.back()));
    start.members[rank] = {
        rank, 1, name,
        detail::write_card({devices, nets.back()->address(), detail::rules_of(options)})};
  }
  detail::check_cards(start, {}, false);
  std::vector<std::shared_ptr<node_core>> cores;
  for (transport::rank_t rank = 0; rank < nets.size(); ++rank) {
    cores.push_back(make({rank, job, 1}, start, options, on_threads(options)));
    cores[rank]->open(std::move(nets[rank]), std::move(parts[rank]), start);
  }
  return cores;
}

void node_core::open(std::unique_ptr<transport::transport> net, std::unique_ptr<deferred_sink> parts,
                     const membership_view& start) {
  parts->attach(engine_->as_sink(), *pool_);
  parts_ = std::move(parts);
  net_ = std::move(net);
  // One that has died since is lost like any other, a moment later.
  std::vector<std::pair<transport::rank_t, std::string>> unreachable;
  for (const auto& [rank, who] : start.members) {
    if (rank == identity_.rank) continue;
    try {
      connect(who);
    } catch (const error& e) {
      if (start.epoch == 0) throw;  // a job does not begin without one of its founders
      unreachable.emplace_back(rank, e.what());
    }
  }
  remote_actors_->out().attach(*net_, *pool_);
  host_ = std::make_unique<caf_host>(remote_actors_, identity_);
  timed_ = host_.get();
  remote_actors_->attach(host_->system());
  membership_->open(host_->system());
  caf_host::let_go_of_logger();
  // Only now: messages may be waiting already.
  closed_ = false;
  open_ = true;
  engine_->start(*net_);
  for (const auto& [rank, why] : unreachable)
    membership_->lost(rank, {transport::loss_kind::broken, why});
}

}  // namespace troupe
