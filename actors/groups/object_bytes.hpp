#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"

namespace troupe {

class decoder;
class encoder;

namespace groups {

/// The type that a rank writes or reads, which travels with the value.
struct object_type {
  std::uint64_t identity;
  std::string_view name;
  std::string (*structure)();  ///< see type_structure
};

/// A value, and the tensors in it, as bytes in a row. Tensors on other devices travel as copies in
/// host memory. Handles of actors and references cannot be in it. Throws encode_error.
std::vector<std::byte> object_to_bytes(const object_type& type, function_ref<void(encoder&)> write);

/// A value as one rank gives it to others, or why it cannot: they are told, so that none waits for
/// it.
struct packed_object {
  std::vector<std::byte> bytes{};
  std::exception_ptr failure{};

  /// What the others get before the bytes: how many they are; of a failure -1 - that.
  std::int64_t size() const noexcept {
    const auto count = static_cast<std::int64_t>(bytes.size());
    return failure ? -1 - count : count;
  }
};

/// object_to_bytes, with what `write` throws in the result.
packed_object pack_object(const object_type& type, function_ref<void(encoder&)> write);

/// The text of a failure that rank `from` gave instead of a value; none of a value. Throws
/// decode_error.
std::optional<std::string> failure_in(std::span<const std::byte> bytes, int from);

/// Reads on rank `to` what `object_to_bytes` has written on rank `from`. Throws decode_error, also
/// where that was another type; type_mismatch where it was one of that name with other fields.
void bytes_to_object(std::span<const std::byte> bytes, const object_type& type, int from, int to,
                     function_ref<void(decoder&)> read);

}  // namespace groups

}  // namespace troupe
