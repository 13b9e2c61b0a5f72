#include "troupe/apps/info/transports.hpp"

#include <fmt/format.h>
#include <uct/api/uct.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe::info {

namespace {

struct lane {
  std::string transport;
  std::string device;
  uct_device_type_t type;
};

std::string type_name(uct_device_type_t type) {
  switch (type) {
    case UCT_DEVICE_TYPE_NET: return "network";
    case UCT_DEVICE_TYPE_SHM: return "shared memory";
    case UCT_DEVICE_TYPE_ACC: return "accelerator";
    case UCT_DEVICE_TYPE_SELF: return "own process";
    default: return "other";
  }
}

void add_lanes(uct_md_h domain, std::vector<lane>& lanes) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i)
    lanes.push_back({found[i].tl_name, found[i].dev_name, found[i].dev_type});
  uct_release_tl_resource_list(found);
}

void add_component(uct_component_h component, std::vector<lane>& lanes) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (domains.empty() || uct_component_query(component, &attributes) != UCS_OK) return;
  for (const uct_md_resource_desc_t& domain : domains) {
    uct_md_config_t* config = nullptr;
    if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) continue;
    uct_md_h opened = nullptr;
    if (uct_md_open(component, domain.md_name, config, &opened) == UCS_OK) {
      add_lanes(opened, lanes);
      uct_md_close(opened);
    }
    uct_config_release(config);
  }
}

std::vector<lane> find_lanes() {
  std::vector<lane> lanes;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return lanes;
  for (unsigned i = 0; i < count; ++i) add_component(components[i], lanes);
  uct_release_component_list(components);
  return lanes;
}

/// "a, b" of the lanes for which `wanted` holds, each once.
template <class Wanted, class Name>
std::string names(const std::vector<lane>& lanes, Wanted wanted, Name name) {
  std::set<std::string> all;
  for (const lane& each : lanes)
    if (wanted(each)) all.insert(name(each));
  return fmt::format("{}", fmt::join(all, ", "));
}

// Segments of System V, which UCX opens to the user's group, are not used.
std::string within_host(const std::vector<lane>& lanes) {
  const std::string shared = names(
      lanes,
      [](const lane& each) { return each.type == UCT_DEVICE_TYPE_SHM && each.transport != "sysv"; },
      [](const lane& each) { return each.transport; });
  return shared.empty() ? "nothing, since there is no shared memory" : shared;
}

bool is_tcp(const lane& each) { return each.transport == "tcp"; }

std::string between_hosts(const std::vector<lane>& lanes) {
  const auto where = [](const lane& each) {
    return fmt::format("{} on {}", each.transport, each.device);
  };
  const std::string rdma = names(
      lanes, [](const lane& each) { return each.type == UCT_DEVICE_TYPE_NET && !is_tcp(each); },
      where);
  if (!rdma.empty()) return rdma;
  const std::string tcp = names(
      lanes, [](const lane& each) { return is_tcp(each) && each.device != "lo"; }, where);
  return tcp.empty() ? "none: there is no network interface but lo"
                     : tcp + " (the pinned UCX is built without RDMA)";
}

bool trusts_network() {
  try {
    return transport::read_trusted_network(transport::process_environment());
  } catch (const error&) {
    return false;  // a job says what is wrong with it
  }
}

std::string open_ports(bool trusted) {
  const std::string store = "rank 0's store, which hears only who proves to know the secret";
  return trusted ? store +
                       "; in a job on several hosts, or with newcomers at an address that is no "
                       "loopback address, a port of UCX for each rank, on all interfaces unless "
                       "net_devices names some, and for transport tcp on one host on the loopback "
                       "interface, where whoever connects can write anywhere in it"
                 : store + "; none of UCX";
}

}  // namespace

report transports() {
  const std::vector<lane> lanes = find_lanes();
  report rows = report::array();
  for (const lane& each : lanes)
    rows.push_back(
        {{"transport", each.transport}, {"device", each.device}, {"kind", type_name(each.type)}});
  const bool trusted = trusts_network();
  return {{"within_this_host", within_host(lanes)},
          {"between_hosts",
           trusted ? between_hosts(lanes)
                   : "refused: TROUPE_TRUSTED_NETWORK is not 1; with it " + between_hosts(lanes)},
          {"open_ports", open_ports(trusted)},
          {"ucx_lanes", rows}};
}

}  // namespace troupe::info
