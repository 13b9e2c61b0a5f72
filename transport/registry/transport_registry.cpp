#include "troupe/transport/registry/transport_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/registry.hpp"

namespace troupe::transport {

namespace {

// As in `route::backend`.
constexpr std::array<std::string_view, 5> built_in{"ucx", "ucx_tcp", "tcp", "loopback", "virtual"};

// The factories of this process, by name.
auto& factories() {
  static auto* const all = new registry<std::string, transport_factory>;
  return *all;
}

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

void register_transport(const std::string& name, transport_factory factory) {
  if (!is_name(name))
    throw invalid_argument(
        fmt::format("'{}' cannot be the name of a transport: it must be lower case letters, "
                    "digits, '_' and '-', with a letter first",
                    name));
  if (std::ranges::count(built_in, name) > 0)
    throw invalid_argument(
        fmt::format("the transport '{}' is Troupe's own; register yours by another name", name));
  if (!factory)
    throw invalid_argument(
        fmt::format("the factory of the transport '{}' is an empty function", name));
  if (!factories().add(name, std::move(factory)))
    throw invalid_argument(fmt::format(
        "the transport '{}' is registered already; unregister_transport removes it", name));
}

bool unregister_transport(const std::string& name) { return factories().remove(name); }

transport_factory find_transport(const std::string& name) { return factories().find(name); }

std::vector<std::string> transport_names() { return factories().keys(); }

std::unique_ptr<transport> make_transport(const std::string& name,
                                          const transport_request& request) {
  // A copy: the factory runs without the lock, and may register others.
  const auto factory = find_transport(name);
  if (!factory) {
    const auto known = transport_names();
    throw invalid_argument(fmt::format(
        "no transport '{}' is registered in this process (there is: {}); register_transport adds "
        "one",
        name, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  auto made = factory(request);
  if (!made)
    throw transport_error(
        fmt::format("the factory of the transport '{}' has returned no transport", name));
  return made;
}

}  // namespace troupe::transport
