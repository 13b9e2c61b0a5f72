#pragma once

#include <cstddef>
#include <string_view>

namespace troupe {

/// The number of bytes of the first character of `text`; 0 if it is not valid UTF-8 (RFC 3629):
/// overlong forms, surrogates and code points beyond U+10FFFF are invalid. Pre: not empty.
inline std::size_t bytes_of_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (length == 1) return 1;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const auto first_two = byte(0) << 8 | byte(1);
  const bool odd = (first_two >= 0xe000 && first_two < 0xe0a0) ||
                   (first_two >= 0xeda0 && first_two < 0xee00) ||
                   (first_two >= 0xf000 && first_two < 0xf090) || first_two >= 0xf490;
  return odd ? 0 : length;
}

}  // namespace troupe
