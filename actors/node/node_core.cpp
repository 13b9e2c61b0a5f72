#include "troupe/actors/node/node_core.hpp"

#include "troupe/actors/contexts/context_interceptor.hpp"
#include "troupe/actors/deadlock/deadlock_search.hpp"
#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/messaging/active_calls.hpp"
#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/messaging/window_credit.hpp"
#include "troupe/actors/node/option_checks.hpp"
#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/remote/handler_run.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/memory/storage_pool.hpp"
#include "troupe/transport/memory/arena.hpp"

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
      operators_(options.operators),
      on_leaked_rref_(options.on_leaked_rref),
      pool_(std::make_shared<pool>()) {
  engine_ = make_engine(*this);
  actors_ = std::make_shared<remote_actors>(
      identity_, engine_, peers_, requests_,
      messaging_rules{options.window, options.overload, options.on_lost_gradient});
  actors_->out().set_epoch(start.epoch);
  auto table = std::make_unique<detail::rref_table>(*actors_, identity_);
  rrefs_ = table.get();
  actors_->set_references(std::move(table));
  const auto own_devices = detail::owner_of(start.members.at(identity_.rank));
  for (const auto& [rank, who] : start.members)
    member_control::add_peer(*peers_, *actors_->flow(), identity_, own_devices, who);
  self_ = peers_->find(identity_.rank);
  deadlocks_ = std::make_unique<deadlock::search>(
      *peers_, *engine_,
      [this](transport::rank_t to, const std::function<void(encoder&)>& write) {
        auto* there = peers_->find(to);
        if (there) actors_->out().try_write_control(*there, deadlock_channel, write);
      },
      incarnation{identity_.rank, identity_.incarnation});
  agent_ = std::make_unique<rpc_agent>(
      rpc_agent::parts{*this, life_, *peers_, engine_, actors_, requests_, rrefs_, &operators_},
      options.rpc_timeout, identity_.job ^ (identity_.incarnation << 32 | identity_.rank));
  spawner_ = std::make_unique<actor_spawner>(life_, *engine_);
  actors_->contexts().set_interceptor(detail::make_interceptor(*this));
  termination_ = std::make_unique<termination_detection>(actors_->out(), *engine_, *peers_);
  termination_->members_changed(start.leader);
  router_ =
      std::make_unique<message_router>(identity_, start.epoch, *peers_, *engine_, actors_, *agent_);
  protocols_ = std::make_unique<detail::protocol_table>(*this);
  membership_options rules;
  rules.hang_limit = options.hang_limit;
  rules.elects = options.on_leader_loss == leader_loss::elect;
  members_ =
      std::make_unique<member_control>(identity_, start, rules, detail::rules_of(options),
                                       member_control::parts{*peers_, life_, *engine_, actors_,
                                                             *router_, *termination_, *protocols_});
  add_channels();
}

// The protocols of the runtime, and those that are registered.
void node_core::add_channels() {
  router_->add_unchecked(membership_channel, [this](opened_envelope& message, auto from) {
    members_->deliver(message, from);
  });
  router_->add(handles_channel, [this](opened_envelope& message, peer& from, engine_unit& unit) {
    actors_->deliver(message, from, {}, &unit);
  });
  router_->add_body(shutdown_channel,
                    [this](decoder& in, peer& from) { termination_->deliver(in, from.rank()); });
  router_->add_body(rref_channel, [this](decoder& in, peer& from) { rrefs_->deliver(in, from); });
  router_->add_body(calls_channel,
                    [this](decoder& in, peer& from) { agent_->deliver_control(in, from); });
  router_->add_body(deadlock_channel,
                    [this](decoder& in, peer& from) { deadlocks_->deliver(from, in); });
  protocols_->attach(*router_);
}

std::shared_ptr<node_core> node_core::make(const node_identity& self, const membership_view& start,
                                           const rpc_options& options,
                                           const engine_maker& make_engine) {
  std::shared_ptr<node_core> core{new node_core(self, start, options, make_engine),
                                  &node_core::destroy};
  core->agent_->belongs_to(core);
  core->rrefs_->attach(core->agent_->weak_from_this());
  return core;
}

void node_core::open(std::unique_ptr<transport::transport> net,
                     std::unique_ptr<deferred_sink> parts, const membership_view& start) {
  parts->attach(engine_->as_sink(), *pool_);
  parts_ = std::move(parts);
  net_ = std::move(net);
  const auto unreachable = members_->connect(*net_, start);
  actors_->out().attach(*net_, *pool_);
  spawner_->open(actors_, identity_);
  actors_->attach(spawner_->system());
  members_->open(spawner_->system());
  actor_system_host::let_go_of_logger();
  // Only now: messages may be waiting already.
  closed_ = false;
  life_.open();
  engine_->start(*net_);
  for (const auto& [rank, why] : unreachable)
    members_->peer_lost(rank, {transport::loss_kind::broken, why});
}

caf::actor_system& node_core::system() {
  check_open();
  return spawner_->system();
}

detail::wait_observer& node_core::waits() noexcept { return *deadlocks_; }

clock::time_point node_core::run_timers(clock::time_point now) {
  const detail::call_context_scope nothing(
      detail::apart());  // a thread may run them while it waits
  auto next = spawner_->run_timers();
  if (!termination_->decided()) next = std::min(next, members_->run_timer(now));
  next = std::min(next, agent_->run_timers(now));
  return std::min(next, deadlocks_->run_timer(now));
}

caf::resumable::resume_result node_core::resume(caf::resumable& item, engine_unit& unit,
                                                std::size_t most) {
  return detail::resume_item(item, unit, most);
}

void node_core::run_between(function_ref<void()> body) { detail::run_between_waits(*this, body); }

void node_core::prepare_thread() noexcept { detail::prepare_thread_for(*this); }

std::vector<transport::route> node_core::routes() const {
  gate::pass pass(life_.uses());
  check_open();
  return net_->routes();
}

namespace {

// One for each pair of devices that the node's map for `to` has.
std::vector<transport::tensor_way> ways_of_devices(const transport::transport& net,
                                                   const peer& to) {
  std::vector<transport::tensor_way> out;
  for (const auto& [here, there] : to.devices.calls.entries()) {
    if (here.where == memory_place::kind::host) continue;
    auto& way = out.emplace_back();
    if (there.where == memory_place::kind::host)
      way = {"", 0, 0, "copied to host memory", "the device map says so"};
    else
      way = net.device_way(to.rank(), here, there);
    way.which = "on " + to_string(here) + ", for " + to_string(there);
  }
  return out;
}

}  // namespace

std::vector<transport::tensor_way> node_core::ways_to(const peer& to) const {
  if (to.rank() == self().id)
    throw invalid_argument("the tensors of a node's calls to itself travel nowhere: " +
                           self().name + " has no transport_plan for itself");
  gate::pass pass(life_.uses());
  check_open();
  auto all = net_->ways_to(to.rank());
  for (auto& one : ways_of_devices(*net_, to)) all.push_back(std::move(one));
  return all;
}

namespace {

tensor_memory count_tensor_memory() {
  tensor_memory out;
  const auto copies = copy_on_write::count();
  out.forced_copies = copies.copies;
  out.forced_copy_bytes = copies.bytes;
  for (auto& one : copy_on_write::writers())
    out.forced_by.push_back({std::move(one.name), one.copies, one.bytes});
  if (const auto* const arena = transport::installed_arena()) {
    const auto counted = arena->count();
    out.limit = arena->limit();
    out.held = counted.held;
    out.in_use = counted.in_use;
    out.peak_in_use = counted.peak_in_use;
    out.small_held = counted.small_held;
    out.without_room = counted.fallbacks;
  }
  return out;
}

}  // namespace

debug_info node_core::info() const {
  gate::pass pass(life_.uses());
  check_open();
  const auto threads = engine_->count();
  const auto rrefs = rrefs_->count();
  debug_info out;
  out.threads = threads.threads;
  out.idle_threads = threads.idle;
  out.calls_in_flight = requests_->size();
  out.calls_served = agent_->active().size();
  out.actors_held = actors_->exports().held();
  out.remote_handles = actors_->proxies();
  out.owner_rrefs = rrefs.owned;
  out.user_rrefs = rrefs.used;
  out.rref_forks = rrefs.forks;
  if (const auto* records = actors_->records()) {
    const auto contexts = records->count();
    out.autograd_contexts = contexts.contexts;
    out.backward_passes = contexts.passes;
  }
  out.tensors = count_tensor_memory();
  out.traffic = net_->count();
  return out;
}

node_core* current_node() noexcept { return static_cast<node_core*>(current_node_context()); }

}  // namespace troupe
