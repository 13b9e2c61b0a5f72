#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <variant>

#include "messages/type_table.hpp"

namespace troupe {

/// Names a node of the job. Sendable, comparable, hashable; quicker as a destination than a name.
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
TROUPE_MESSAGE(worker_info, name, id)

/// Where a call goes: a worker's name, its worker_info or its rank.
class destination {
public:
  destination(const char* name) : to_(std::string(name)) {}
  destination(std::string name) : to_(std::move(name)) {}
  destination(std::string_view name) : to_(std::string(name)) {}
  destination(const worker_info& worker) : to_(std::int64_t{worker.id}) {}
  destination(std::integral auto rank) : to_(static_cast<std::int64_t>(rank)) {}

  const std::variant<std::string, std::int64_t>& value() const noexcept { return to_; }

private:
  std::variant<std::string, std::int64_t> to_;
};

}  // namespace troupe

template <>
struct std::hash<troupe::worker_info> {
  std::size_t operator()(const troupe::worker_info& w) const noexcept {
    return std::hash<std::uint32_t>()(w.id);
  }
};
