#include "troupe/apps/info/versions.hpp"

#include <capnp/common.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <ucp/api/ucp.h>

#include <caf/config.hpp>

namespace troupe::info {

report versions() {
  return {{"troupe", TROUPE_VERSION},
          {"libtorch", TORCH_VERSION},
          {"caf", fmt::format("{}.{}.{}", CAF_VERSION / 10000, CAF_VERSION / 100 % 100,
                              CAF_VERSION % 100)},
          {"capnproto",
           fmt::format("{}.{}.{}", CAPNP_VERSION_MAJOR, CAPNP_VERSION_MINOR, CAPNP_VERSION_MICRO)},
          {"ucx", ucp_get_version_string()}};
}

}  // namespace troupe::info
