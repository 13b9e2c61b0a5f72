#include "troupe/actors/node/node_transport.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "troupe/actors/node/option_checks.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/composite/composite_transport.hpp"
#include "troupe/transport/lending/lending_transport.hpp"
#include "troupe/transport/memory/arena.hpp"
#include "troupe/transport/registry/transport_registry.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::detail {

namespace {

// Members that may join later are reckoned with when shared memory and descriptors are divided.
constexpr unsigned likely_joiners = 8;

transport::lending_settings lending_of(const rpc_options& options) {
  auto out = transport::read_lending(transport::process_environment());
  out.lend = out.lend || options.lend_tensors;
  out.hand_over = out.hand_over.value_or(options.hand_over_tensors);
  out.strictly = out.strictly || options.lend_strictly;
  if (options.lend_from > 0) out.from = options.lend_from;
  if (options.lend_copies_from > 0) out.copies_from = options.lend_copies_from;
  return out;
}

bool shares_tensors(const transport::lending_settings& how) {
  return how.lend || how.hand_over.value_or(false);
}

// `open`: those of them that are open already.
void need_descriptors_of_node(const rpc_options& options, std::size_t peers, std::size_t joiners,
                              std::size_t open = 0) {
  auto who = "for a node with " + std::to_string(peers) + " peers";
  if (joiners > 0) who += " and room for " + std::to_string(joiners) + " joiners";
  const auto network = network_settings(options);
  const auto streams = std::max<std::size_t>(network.bulk_streams, network.interfaces.size());
  // To hand memory out, and to watch who has been lent some.
  constexpr std::size_t for_lending = 8;
  const auto whole = transport::descriptors_of_node(peers + joiners, streams) +
                     (shares_tensors(lending_of(options)) ? for_lending : 0);
  transport::need_descriptors(whole - std::min(whole, open), who);
}

bool trusts_network(const rpc_options& options) {
  return options.trusted_network ||
         transport::read_trusted_network(transport::process_environment());
}

// Where the tensors of this process lie from now on; null, with a warning, where that cannot be.
transport::arena* process_arena(transport::rank_t rank, std::size_t limit) {
  std::string why_not;
  transport::arena_options options;
  options.limit = limit;
  auto* const memory = transport::install_arena(options, why_not);
  if (!memory)
    log().warn(
        "rank {}: its tensors are copied for other nodes, since this process has no arena: {}",
        rank, why_not);
  return memory;
}

// UCX alone, between hosts. Nobody's address is exchanged then: all ranks say so, before anything
// listens.
void check_hosts(const transport::pre_roster& known, const rpc_options& options) {
  if (trusts_network(options)) return;
  const auto& here = known.members.at(known.rank);
  const auto whom = [](const transport::member& one) { return "rank " + std::to_string(one.rank); };
  constexpr auto refused =
      "UCX's protocol over a network lets whoever reaches its port write into a rank, without the "
      "job's secret, so it is refused. Use backend::automatic or backend::tcp, whose connections "
      "prove both ends; or, if nobody else can reach the network, set rpc_options::trusted_network "
      "or TROUPE_TRUSTED_NETWORK=1 on every rank";
  for (const auto& other : known.members) {
    if (other.host_id != here.host_id)
      throw transport_error(whom(here) + " runs on " + here.host + ", " + whom(other) + " on " +
                            other.host + ": " + refused);
    if (other.process_namespace != here.process_namespace)
      throw transport_error(whom(here) + " and " + whom(other) + " run on " + here.host +
                            " in two process namespaces, pid:[" +
                            std::to_string(here.process_namespace) + "] and pid:[" +
                            std::to_string(other.process_namespace) +
                            "], and could not see one another's end: " + refused);
  }
}

// Across process namespaces nodes of one host talk over the network.
bool all_see_one_another(const transport::pre_roster& known) {
  return known.all_on_one_host && std::ranges::all_of(known.members, [&](const auto& one) {
           return one.process_namespace == known.members.front().process_namespace;
         });
}

// Who is where, as far as a founder knows.
transport::ucx_options founders_place(const transport::pre_roster& known,
                                      const rpc_options& options, bool here_alone) {
  transport::ucx_options ucx;
  ucx.rank = known.rank;
  ucx.one_host = here_alone && all_see_one_another(known);
  if (here_alone && !ucx.one_host) ucx.net_devices = "lo";
  const auto& self = known.members.at(known.rank);
  ucx.host_peers = options.admits_joiners ? likely_joiners : 0;
  for (const auto& other : known.members) {
    if (other.rank == known.rank || other.host_id != self.host_id) continue;
    ++ucx.host_peers;
    if (other.rank < known.rank) ucx.speaks_for_host = false;
  }
  return ucx;
}

transport::ucx_kind kind_of(backend wanted) {
  switch (wanted) {
    case backend::shared_memory: return transport::ucx_kind::shared_memory;
    case backend::ucx_tcp: return transport::ucx_kind::tcp;
    default: return transport::ucx_kind::automatic;
  }
}

// `place` says who is where; `here_alone`: nobody comes from another host.
std::unique_ptr<transport::transport> make_own(transport::ucx_options place, bool here_alone,
                                               const transport::job_secret& secret,
                                               const rpc_options& options, deferred_sink& parts) {
  auto tcp = network_settings(options);
  tcp.rank = place.rank;
  tcp.secret = secret.subkey("transport tcp");
  tcp.keepalive = options.keepalive;
  tcp.limit = options.keepalive * 5 / 2;
  tcp.freezes_payloads = lending_of(options).lend;
  const bool interfaces_named = !tcp.interfaces.empty();
  if (here_alone && !interfaces_named) tcp.interfaces = {"lo"};
  if (options.transport == backend::tcp)
    return transport::make_tcp_transport(std::move(tcp), parts, parts);
  auto& ucx = place;
  ucx.trusted_network = trusts_network(options);
  if (interfaces_named) ucx.net_devices = fmt::format("{}", fmt::join(tcp.interfaces, ","));
  ucx.keepalive = options.keepalive;
  ucx.tcp_limit = options.keepalive * 5 / 2;
  const auto proof = secret.subkey("transport").sign({});
  static_assert(sizeof proof == sizeof ucx.key);
  std::memcpy(ucx.key.data(), &proof, sizeof proof);
  ucx.kind = kind_of(options.transport);
  const auto rank = ucx.rank;
  const auto make = [&](transport::sink& to, transport::payload_pool& pool) {
    if (options.transport == backend::automatic && !ucx.one_host)
      return transport::make_composite_transport(std::move(ucx), std::move(tcp), to, pool);
    return transport::make_ucx_transport(std::move(ucx), to, pool);
  };
  const auto lends = lending_of(options);
  if (!shares_tensors(lends)) return make(parts, parts);
  transport::lending_options lending;
  lending.hand_over = lends.hand_over.value_or(true);
  lending.only_given = !lends.lend;
  lending.lend_from = lends.from;
  lending.copy_from = lends.copies_from;
  lending.strict = lends.strictly && lends.lend;
  lending.rank = rank;
  lending.secret = secret.subkey("transport lending");
  lending.memory = process_arena(rank, options.tensor_memory_limit);
  return transport::make_lending_transport(std::move(lending), make, parts, parts);
}

std::unique_ptr<transport::transport> make_registered(transport::rank_t rank,
                                                      std::uint32_t world_size,
                                                      const transport::job_secret& secret,
                                                      bool one_host, const rpc_options& options,
                                                      deferred_sink& parts) {
  return transport::make_transport(options.transport_name,
                                   {rank, world_size, secret, trusts_network(options), one_host,
                                    options.keepalive, options.transport_options, parts, parts});
}

}  // namespace

std::unique_ptr<transport::transport> founders_transport(const transport::pre_roster& known,
                                                         const rpc_options& options,
                                                         deferred_sink& parts) {
  const bool here_alone =
      known.all_on_one_host && (!options.admits_joiners || known.meets_on_host_alone);
  if (!options.transport_name.empty())
    return make_registered(known.rank, known.world_size, known.secret, here_alone, options, parts);
  if (options.transport == backend::ucx || options.transport == backend::ucx_tcp)
    check_hosts(known, options);
  need_descriptors_of_node(options, known.world_size - 1,
                           options.admits_joiners ? likely_joiners : 0);
  return make_own(founders_place(known, options, here_alone), here_alone, known.secret, options,
                  parts);
}

std::unique_ptr<transport::transport> joiners_transport(transport::rank_t rank,
                                                        const transport::job_secret& secret,
                                                        bool one_host, const rpc_options& options,
                                                        deferred_sink& parts, std::size_t& open) {
  if (!options.transport_name.empty())
    return make_registered(rank, 0, secret, one_host, options, parts);
  transport::ucx_options place;
  place.rank = rank;
  place.one_host = one_host;
  place.host_peers = likely_joiners;
  need_descriptors_of_node(options, 1, 0);  // how many more there are is not known yet
  const auto before = transport::descriptors().open;
  auto net = make_own(std::move(place), one_host, secret, options, parts);
  const auto after = transport::descriptors().open;
  open = after - std::min(before, after);
  return net;
}

void need_descriptors_of(const rpc_options& options, std::size_t peers, std::size_t open) {
  if (options.transport_name.empty()) need_descriptors_of_node(options, peers, 0, open);
}

}  // namespace troupe::detail
