#include "troupe/apps/info/transports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/tcp_settings.hpp"
#include "troupe/transport/ucx/devices.hpp"

namespace troupe::info {

namespace {

using transport::ucx_device;

/// "a, b" of the devices for which `wanted` holds, each once.
template <class Wanted, class Name>
std::string names(const std::vector<ucx_device>& all, Wanted wanted, Name name) {
  std::set<std::string> found;
  for (const ucx_device& each : all)
    if (wanted(each)) found.insert(name(each));
  return fmt::format("{}", fmt::join(found, ", "));
}

// Segments of System V, which UCX opens to the user's group, are not used.
std::string within_host(const std::vector<ucx_device>& all) {
  const std::string shared = names(
      all,
      [](const ucx_device& each) {
        return each.kind == ucx_device::type::shared_memory && each.transport != "sysv";
      },
      [](const ucx_device& each) { return each.transport; });
  return shared.empty() ? "nothing, since there is no shared memory" : shared;
}

// What a job here would listen on, and how that is protected.
std::string tcp_between_hosts() {
  try {
    const auto options = transport::read_tcp_settings({}, transport::process_environment());
    std::vector<std::string> places;
    for (const auto& one : transport::tcp::local_places(options.interfaces)) {
      auto where = to_string(one.at.where);
      places.push_back(fmt::format("{} ({})", one.interface, where.substr(0, where.rfind(':'))));
    }
    const auto ports = options.ports.first == 0 ? std::string("any port")
                       : options.ports.first == options.ports.last
                           ? fmt::format("port {}", options.ports.first)
                           : fmt::format("ports {} to {}", options.ports.first, options.ports.last);
    const char* const protection =
        options.protection == transport::stream_protection::off       ? "not protected"
        : options.protection == transport::stream_protection::encrypt ? "encrypted"
                                                                      : "authenticated";
    return fmt::format("TCP, whose ends prove that they have the job's secret, {}; {} on {}",
                       protection, ports, fmt::join(places, ", "));
  } catch (const error& e) {
    return fmt::format("none: {}", e.what());
  }
}

bool trusts_network() {
  try {
    return transport::read_trusted_network(transport::process_environment());
  } catch (const error&) {
    return false;  // a job says what is wrong with it
  }
}

std::string rdma(const std::vector<ucx_device>& all, bool trusted) {
  const std::string devices = names(
      all, [](const ucx_device& each) { return each.is_rdma(); },
      [](const ucx_device& each) { return fmt::format("{} on {}", each.transport, each.device); });
  if (devices.empty()) return "none: UCX finds no device (the pinned UCX is built without RDMA)";
  return trusted ? devices : "not used: TROUPE_TRUSTED_NETWORK is not 1; with it " + devices;
}

std::string open_ports() {
  return "rank 0's store, and, in a job that may have ranks on several hosts, a port of TCP for "
         "each rank; both accept only peers that prove knowledge of the job's secret";
}

}  // namespace

report transports() {
  const auto all = transport::find_ucx_devices();
  report rows = report::array();
  for (const ucx_device& each : all)
    rows.push_back({{"transport", each.transport},
                    {"device", each.device},
                    {"kind", transport::text_of(each.kind)}});
  return {{"within_this_host", within_host(all)},
          {"between_hosts", tcp_between_hosts()},
          {"rdma_between_hosts", rdma(all, trusts_network())},
          {"open_ports", open_ports()},
          {"ucx_lanes", rows}};
}

}  // namespace troupe::info
