#include "transport/ucx/permitted.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "messages/error.hpp"

namespace troupe::transport::ucx {

namespace {

using names = std::vector<std::string>;

// What stays on this host: all that UCX 1.22 has.
constexpr std::array local{"posix",     "xpmem",     "knem",     "cma",      "self",
                           "cuda",      "cuda_copy", "cuda_ipc", "gdr_copy", "rocm",
                           "rocm_copy", "rocm_ipc",  "rocm_gdr", "ze",       "ze_copy",
                           "ze_ipc",    "ze_gdr",    "gaudi",    "gaudi_gdr"};

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

// Without the groups that contain System V's.
names spelt_out(const names& wanted) {
  names all;
  for (const auto& name : wanted) {
    if (name == "sm" || name == "shm")
      all.insert(all.end(), {"posix", "xpmem", "knem", "cma"});
    else if (name == "mm")
      all.insert(all.end(), {"posix", "xpmem"});
    else if (name != "sysv")
      all.push_back(name);
  }
  return all;
}

names left_out(const ucx_options& o) {
  if (!uses_network(o)) return {"sysv", "tcp", "ib", "gga"};
  if (o.kind == ucx_kind::tcp) return {"sysv", "sm", "ib", "gga", "self"};
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
  auto left = spelt_out(split(wanted));
  if (!uses_network(o))
    std::erase_if(left, [](const std::string& name) { return !std::ranges::count(local, name); });
  if (left.empty())
    throw transport_error(
        "UCX_TLS asks for '" + std::string(wanted) +
        "', of which nothing can be used: System V's segments are open to the user's group, and "
        "what goes over a network needs rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1");
  return join(left);
}

}  // namespace troupe::transport::ucx
