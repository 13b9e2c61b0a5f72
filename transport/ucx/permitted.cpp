#include "troupe/transport/ucx/permitted.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::ucx {

namespace {

using names = std::vector<std::string>;

// Transports within a host: all that UCX 1.22 has.
constexpr std::array local{"posix",     "xpmem",     "knem",     "cma",      "self",
                           "cuda",      "cuda_copy", "cuda_ipc", "gdr_copy", "rocm",
                           "rocm_copy", "rocm_ipc",  "rocm_gdr", "ze",       "ze_copy",
                           "ze_ipc",    "ze_gdr",    "gaudi",    "gaudi_gdr"};

// Transports over a network, with the names that UCX has for groups of them.
constexpr std::array networks{"tcp",     "ib",   "rc",      "rc_v", "rc_x",     "rc_verbs",
                              "rc_mlx5", "ud",   "ud_v",    "ud_x", "ud_verbs", "ud_mlx5",
                              "dc",      "dc_x", "dc_mlx5", "gga",  "gga_mlx5", "srd"};

names split(std::string_view list) {
  names parts;
  while (!list.empty()) {
    const auto part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

std::string join(const names& parts) {
  std::string list;
  for (const auto& part : parts) list += (list.empty() ? "" : ",") + part;
  return list;
}

// UCX also takes "\name" for a name that is no group's, and "name:aux" for how it may be used.
std::string_view bare(std::string_view name) {
  if (name.starts_with('\\')) name.remove_prefix(1);
  return name.substr(0, name.find(':'));
}

// The known transports among `wanted`, without the groups that contain System V's. Nothing else is
// passed on: UCX would accept a pattern ("s?sv") as well.
names known(const names& wanted, const ucx_options& o) {
  const auto is_network = [&](std::string_view name) {
    return uses_network(o) && !(name == "tcp" && o.kind == ucx_kind::rdma) &&
           std::ranges::count(networks, name) > 0;
  };
  names all;
  for (const auto& one : wanted) {
    const auto name = bare(one);
    if (name == "sm" || name == "shm")
      all.insert(all.end(), {"posix", "xpmem", "knem", "cma"});
    else if (name == "mm")
      all.insert(all.end(), {"posix", "xpmem"});
    else if (std::ranges::count(local, name) || is_network(name))
      all.push_back(one);
  }
  return all;
}

names left_out(const ucx_options& o) {
  if (!uses_network(o)) return {"sysv", "tcp", "ib", "gga"};
  if (o.kind == ucx_kind::tcp) return {"sysv", "sm", "ib", "gga", "self"};
  if (o.kind == ucx_kind::rdma) return {"sysv", "tcp"};
  return {"sysv"};
}

}  // namespace

bool uses_network(const ucx_options& o) {
  if (!o.trusted_network || o.kind == ucx_kind::shared_memory) return false;
  return o.kind == ucx_kind::tcp || !o.one_host;
}

std::string permitted_transports(const ucx_options& o, std::string_view wanted) {
  if (wanted == "all") wanted = {};
  if (wanted.empty()) return "^" + join(left_out(o));
  if (wanted.starts_with('^')) {
    auto out = split(wanted.substr(1));
    for (const auto& name : left_out(o))
      if (!std::ranges::count(out, name)) out.push_back(name);
    return "^" + join(out);
  }
  const auto left = known(split(wanted), o);
  if (left.empty())
    throw transport_error(
        "UCX_TLS asks for '" + std::string(wanted) +
        "', of which nothing can be used: System V's segments are open to the user's group, and "
        "what goes over a network needs rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1");
  return join(left);
}

}  // namespace troupe::transport::ucx
