#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <source_location>
#include <string>
#include <variant>

#include "troupe/messages/codec/type_registration.hpp"

namespace troupe {

/// Identifies a node of the job. Sendable, comparable, hashable; faster as a destination than a
/// name.
struct worker_info {
  std::string name;
  std::uint32_t id = 0;  ///< its rank

  friend bool operator==(const worker_info& a, const worker_info& b) noexcept {
    return a.id == b.id;
  }
  friend auto operator<=>(const worker_info& a, const worker_info& b) noexcept {
    return a.id <=> b.id;
  }
  friend std::ostream& operator<<(std::ostream& out, const worker_info& w) {
    return out << "worker_info{name: " << w.name << ", id: " << w.id << '}';
  }
};
TROUPE_MESSAGE_EXTERN(worker_info, name, id)

/// Where a call goes: a worker's name, its worker_info or its rank. Remembers the source line that
/// names it, for error texts.
class destination {
public:
  using location = std::source_location;

  destination(const char* name, location site = location::current())
      : to_(std::string(name)), site_(site) {}
  destination(std::string name, location site = location::current())
      : to_(std::move(name)), site_(site) {}
  destination(std::string_view name, location site = location::current())
      : to_(std::string(name)), site_(site) {}
  destination(const worker_info& worker, location site = location::current())
      : to_(std::int64_t{worker.id}), site_(site) {}
  destination(std::integral auto rank, location site = location::current())
      : to_(static_cast<std::int64_t>(rank)), site_(site) {}

  const std::variant<std::string, std::int64_t>& value() const noexcept { return to_; }
  const location& site() const noexcept { return site_; }

private:
  std::variant<std::string, std::int64_t> to_;
  location site_;
};

}  // namespace troupe

template <>
struct std::hash<troupe::worker_info> {
  std::size_t operator()(const troupe::worker_info& w) const noexcept {
    return std::hash<std::uint32_t>()(w.id);
  }
};
