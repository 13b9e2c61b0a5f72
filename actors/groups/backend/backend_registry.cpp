#include "troupe/actors/groups/backend/backend_registry.hpp"

#include <c10/core/Device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "troupe/actors/groups/backend/text.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/registry.hpp"

namespace troupe::groups {

namespace {

auto& registered() {
  static auto* const all = new registry<std::string, registered_backend>;
  return *all;
}

bool is_backend_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

}  // namespace

bool is_device_type(const std::string& text) {
  try {
    return !c10::Device(text).has_index();
  } catch (const c10::Error&) {
    return false;
  }
}

void register_backend(const std::string& name, const std::vector<std::string>& devices,
                      backend_factory make) {
  if (!is_backend_name(name))
    throw invalid_argument(fmt::format(
        "'{}' cannot be a backend's name: it has letters, digits, '_' and '-' alone", name));
  if (devices.empty())
    throw invalid_argument(
        fmt::format("backend '{}' is for no device: name those whose tensors it takes", name));
  for (const auto& device : devices)
    if (device != any_device && !is_device_type(device))
      throw invalid_argument(fmt::format(
          "backend '{}' is for devices of type '{}', which libtorch does not know", name, device));
  if (!make) throw invalid_argument(fmt::format("the factory of backend '{}' is empty", name));
  if (!registered().add(lower_case(name), {devices, std::move(make)}))
    throw invalid_argument(fmt::format("backend '{}' is registered already", lower_case(name)));
}

void unregister_backend(const std::string& name) { registered().remove(lower_case(name)); }

registered_backend find_backend(const std::string& name) {
  auto found = registered().find(lower_case(name));
  if (!found.make)
    throw invalid_argument(fmt::format("Unknown c10d backend type {}: those registered are {}",
                                       upper_case(name), fmt::join(backend_names(), ", ")));
  return found;
}

bool is_backend_available(const std::string& name) {
  return registered().contains(lower_case(name));
}

std::vector<std::string> backend_names() { return registered().keys(); }

}  // namespace troupe::groups
