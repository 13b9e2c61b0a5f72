#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// What lies in a door's letter box; messages/schema/store.capnp says what the fields mean.
struct door_entry {
  enum class kind : std::uint8_t { wish, address, closed };

  kind what = kind::closed;
  std::uint64_t visit = 0;
  std::string name{};
  std::optional<std::uint32_t> rank{};
  std::string writer{};
  std::chrono::milliseconds patience{0};
  store::bytes address{};

  friend bool operator==(const door_entry&, const door_entry&) = default;
};

/// What a newcomer hears: first which rank it is to have, then how it went.
struct door_answer {
  std::string failure;  ///< empty if it went well
  std::uint32_t rank = 0;
  std::uint64_t job_id = 0;
  store::bytes welcome{};

  friend bool operator==(const door_answer&, const door_answer&) = default;
};

store::bytes encode(const door_entry& value);
store::bytes encode(const door_answer& value);

/// Throw decode_error, also for what is longer than anybody writes.
door_entry decode_door_entry(const store::bytes& bytes);
door_answer decode_door_answer(const store::bytes& bytes);

/// The most bytes of a newcomer's address.
inline constexpr std::size_t longest_door_address = 64 * 1024;

/// The longest that anybody is believed to wait.
inline constexpr std::chrono::milliseconds longest_patience = std::chrono::hours(24);

}  // namespace troupe::transport
