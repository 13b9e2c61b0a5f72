// How a node comes to be: rendezvous, transport, engine and actor system, in that order.

#include <random>
#include <set>

#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/actors/node/bootstrap.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/node/node_transport.hpp"
#include "troupe/actors/node/option_checks.hpp"
#include "troupe/actors/scheduler/thread_engine.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/loopback/loopback.hpp"
#include "troupe/transport/rendezvous/join_client.hpp"
#include "troupe/transport/rendezvous/rendezvous.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe {

namespace {

node_core::engine_maker on_threads(const rpc_options& options) {
  engine_options how;
  how.max_threads = options.max_threads;
  how.retire_after = options.thread_idle_limit;
  return [how](dispatcher& node) { return std::make_shared<thread_engine>(node, how); };
}

transport::rendezvous_options rendezvous_options_of(const rpc_options& options) {
  transport::rendezvous_options meet;
  meet.init_method = options.init_method;
  meet.rank = options.rank;
  meet.world_size = options.world_size;
  meet.name = options.name;
  for (const auto& alias : options.aliases) meet.name += ',' + alias;
  meet.timeout = options.init_timeout;
  meet.job = options.job;
  meet.dynamic = options.admits_joiners;
  return meet;
}

std::shared_ptr<node_core> found_job(const rpc_options& options,
                                     const detail::device_directory& here) {
  auto parts = std::make_unique<deferred_sink>();
  std::unique_ptr<transport::transport> net;
  auto roster = transport::rendezvous(
      rendezvous_options_of(options), [&](const transport::pre_roster& known) {
        // Only here, so that the others, whom the maps concern, get the error too.
        auto devices = detail::read_device_options(options.devices, options.device_maps, here);
        net = detail::founders_transport(known, options, *parts);
        return detail::write_descriptor(
            {std::move(devices), net->address(), detail::rules_of(options)});
      });
  membership_view start;
  for (const auto& one : roster.members)
    start.members[one.rank] = {one.rank, one.incarnation, one.name, one.address};
  try {
    detail::check_descriptors(start, roster.rank, options.admits_joiners);
  } catch (...) {
    roster.close();
    throw;
  }
  auto core = node_core::make({roster.rank, roster.job_id, roster.members[roster.rank].incarnation},
                              start, options, on_threads(options));
  core->at_end([roster, &peers = core->peers()](std::chrono::milliseconds limit) mutable {
    std::vector<transport::rank_t> gone;
    for (const auto& one : roster.members) {
      const auto* founder = peers.find(one.rank, one.incarnation);
      if (!founder || !founder->live()) gone.push_back(one.rank);
    }
    roster.close(limit, gone);
  });
  log_as(roster.rank, core->self().name);
  core->open(std::move(net), std::move(parts), start);
  if (options.admits_joiners && roster.rank == 0)
    core->members().serve_joins(roster.session->keys(), roster.job);
  return core;
}

std::shared_ptr<node_core> join_running(const rpc_options& options,
                                        const detail::device_directory& here) {
  const auto devices = detail::read_device_options(options.devices, options.device_maps, here);
  auto parts = std::make_unique<deferred_sink>();
  std::unique_ptr<transport::transport> net;
  const auto meet = rendezvous_options_of(options);
  std::size_t open = 0;
  const auto mine =
      transport::join_job(meet, [&](transport::rank_t rank, const transport::job_secret& secret) {
        const bool one_host = transport::joiner_meets_on_this_host_alone(meet);
        net = detail::joiners_transport(rank, secret, one_host, options, *parts, open);
        return detail::write_descriptor({devices, net->address(), detail::rules_of(options)});
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
    throw rendezvous_error("the job admitted rank " + std::to_string(mine.rank) +
                           ", but its list of members lacks it");
  detail::check_descriptors(view, mine.rank, true);
  // Better than to lose members one by one.
  detail::need_descriptors_of(options, view.members.size() - 1, open);
  auto core = node_core::make({mine.rank, mine.job_id, self->second.incarnation}, view, options,
                              on_threads(options));
  log_as(mine.rank, core->self().name);
  core->open(std::move(net), std::move(parts), view);
  return core;
}

}  // namespace

std::shared_ptr<node_core> join_job(const rpc_options& options,
                                    const detail::device_directory& here) {
  forked::check();
  try {
    check_options(options);
    detail::check_devices(options.devices, here);
  } catch (const error& e) {
    if (!options.joins_running)
      transport::decline_rendezvous(rendezvous_options_of(options), e.fault().text);
    throw;
  }
  transport::raise_descriptor_limit();
  return options.joins_running ? join_running(options, here) : found_job(options, here);
}

std::vector<std::shared_ptr<node_core>> join_loopback(const std::vector<std::string>& names,
                                                      const rpc_options& options,
                                                      const detail::device_directory& here) {
  forked::check();
  check_options(options);
  detail::check_devices(options.devices, here);
  const auto devices = detail::read_device_options(options.devices, options.device_maps, here);
  auto network = std::make_shared<transport::loopback_network>();
  std::random_device random;
  const auto job = std::uint64_t{random()} << 32 | random();
  std::set<std::string> known;
  for (const auto& text : names) {
    if (const auto problem = worker_name_problem(text); !problem.empty())
      throw invalid_argument("a worker's name " + problem);
    for (const auto& name : worker_names(text))
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
        detail::write_descriptor({devices, nets.back()->address(), detail::rules_of(options)})};
  }
  detail::check_descriptors(start, {}, false);
  std::vector<std::shared_ptr<node_core>> cores;
  for (transport::rank_t rank = 0; rank < nets.size(); ++rank) {
    cores.push_back(node_core::make({rank, job, 1}, start, options, on_threads(options)));
    cores[rank]->open(std::move(nets[rank]), std::move(parts[rank]), start);
  }
  return cores;
}

}  // namespace troupe
