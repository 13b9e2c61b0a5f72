#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// A joiner's message to the join service; messages/schema/store.capnp explains the fields.
struct join_message {
  enum class kind : std::uint8_t { request, address, closed };

  kind what = kind::closed;
  std::uint64_t visit = 0;
  std::string name{};
  std::optional<std::uint32_t> rank{};
  std::string writer{};
  std::chrono::milliseconds wait_limit{0};
  store::bytes address{};

  friend bool operator==(const join_message&, const join_message&) = default;
};

/// An answer to a joiner: first the rank that it gets, then whether it was admitted.
struct join_reply {
  std::string failure;  ///< empty on success
  std::uint32_t rank = 0;
  std::uint64_t job_id = 0;
  store::bytes welcome{};

  friend bool operator==(const join_reply&, const join_reply&) = default;
};

store::bytes encode(const join_message& value);
store::bytes encode(const join_reply& value);

/// Throw decode_error, also for a message that is longer than a joiner's can be.
join_message decode_join_message(const store::bytes& bytes);
join_reply decode_join_reply(const store::bytes& bytes);

/// The most bytes of the address of a joiner.
inline constexpr std::size_t longest_joiner_address = 64 * 1024;

/// The most that a joiner's wait limit counts for.
inline constexpr std::chrono::milliseconds longest_wait_limit = std::chrono::hours(24);

}  // namespace troupe::transport
