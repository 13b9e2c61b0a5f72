#include "troupe/transport/registry/transport_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

// As in `route::backend`.
constexpr std::array<std::string_view, 5> built_in{"ucx", "ucx_tcp", "tcp", "loopback", "virtual"};

// The factories of this process.
struct factory_table {
  std::mutex mutex;
  std::map<std::string, transport_factory> by_name;

  // Never destroyed: threads may look things up while the process ends.
  static factory_table& here() {
    static auto* one = new factory_table;
    return *one;
  }
};

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
  auto& table = factory_table::here();
  const std::lock_guard lock(table.mutex);
  if (!table.by_name.emplace(name, std::move(factory)).second)
    throw invalid_argument(fmt::format(
        "the transport '{}' is registered already; unregister_transport removes it", name));
}

bool unregister_transport(const std::string& name) {
  if (std::ranges::count(built_in, name) > 0) return false;
  transport_factory removed;  // destroyed without the lock: it may run code of the program
  auto& table = factory_table::here();
  const std::lock_guard lock(table.mutex);
  const auto found = table.by_name.find(name);
  if (found == table.by_name.end()) return false;
  removed = std::move(found->second);
  table.by_name.erase(found);
  return true;
}

transport_factory find_transport(const std::string& name) {
  auto& table = factory_table::here();
  const std::lock_guard lock(table.mutex);
  const auto found = table.by_name.find(name);
  return found == table.by_name.end() ? transport_factory() : found->second;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> out;
  auto& table = factory_table::here();
  const std::lock_guard lock(table.mutex);
  out.reserve(table.by_name.size());
  for (const auto& [name, factory] : table.by_name) out.push_back(name);
  return out;
}

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
