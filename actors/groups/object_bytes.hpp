#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"

namespace troupe {

class decoder;
class encoder;

namespace groups {

/// A value, and the tensors in it, as bytes in a row. Tensors on other devices travel as copies in
/// host memory. Handles of actors and references cannot be in it. Throws encode_error.
std::vector<std::byte> object_to_bytes(function_ref<void(encoder&)> write);

/// Reads what `object_to_bytes` has written. Throws decode_error.
void bytes_to_object(std::span<const std::byte> bytes, function_ref<void(decoder&)> read);

}  // namespace groups

}  // namespace troupe
