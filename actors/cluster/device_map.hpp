#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Tensors on the device `here` of this node arrive on the device `there` of the callee, and those
/// of its answers the other way. Devices are called "cpu", "cuda:0", "cuda:1" and so on.
struct device_pair {
  std::string here;
  std::string there;
};

/// The devices of this node and one callee, one to one: `{{"cuda:0", "cuda:1"}}`.
using device_map = std::vector<device_pair>;

}  // namespace troupe
