#pragma once

#include <cstddef>
#include <span>

namespace troupe::groups::network {

/// How bytes are divided into messages: as few as can be of at most so many bytes, of whole
/// elements and as equal as can be.
class pieces {
public:
  pieces(std::size_t bytes, std::size_t element, std::size_t most) noexcept
      : elements_(bytes / element), element_(element), count_((bytes + most - 1) / most) {}

  std::size_t count() const noexcept { return count_; }
  std::size_t begin_of(std::size_t i) const noexcept { return elements_ * i / count_ * element_; }
  std::size_t size_of(std::size_t i) const noexcept { return begin_of(i + 1) - begin_of(i); }

  template <class Byte>
  std::span<Byte> of(std::span<Byte> bytes, std::size_t i) const {
    return bytes.subspan(begin_of(i), size_of(i));
  }

private:
  std::size_t elements_;
  std::size_t element_;
  std::size_t count_;
};

}  // namespace troupe::groups::network
