#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups {

/// Makes this rank's end of a backend. All ranks of the group call it at the same time; if one of
/// them throws, the group is not made. May block, and may use `request.exchange`.
using backend_factory = std::function<std::unique_ptr<backend>(const backend_request& request)>;

/// Of a backend of the CPU that takes tensors of all other devices too: the group copies them to
/// the host and back.
inline constexpr std::string_view any_device = "any";

/// Is it a type of device as libtorch writes it, "cuda"?
bool is_device_type(const std::string& text);

/// Groups that are made from now on can name `name`, as in "cpu:name", for tensors on `devices`
/// ("cpu", "cuda", `any_device`). A name is taken in lower case. Throws invalid_argument if it is
/// empty, has other characters than letters, digits, '_' and '-', is taken, or if `make` is empty
/// or there is no device. Thread-safe.
void register_backend(const std::string& name, const std::vector<std::string>& devices,
                      backend_factory make);

/// Groups that are made from now on cannot name it. Those that have one keep it: code that was
/// loaded for it must stay. Thread-safe.
void unregister_backend(const std::string& name);

/// What is registered.
struct registered_backend {
  std::vector<std::string> devices;
  backend_factory make;
};

/// Throws invalid_argument if there is none: "Unknown c10d backend type NAME". Thread-safe.
registered_backend find_backend(const std::string& name);

/// In any spelling of upper and lower case. Thread-safe.
bool is_backend_available(const std::string& name);

/// The names, in lower case, sorted. Thread-safe.
std::vector<std::string> backend_names();

}  // namespace troupe::groups
