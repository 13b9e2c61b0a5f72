#pragma once

#include <cstddef>
#include <cstdint>

// Limits of a message. The encoder does not write what a decoder would refuse: `Error` is the
// exception of the side that checks.
namespace troupe::detail {

/// Elements of a CAF message.
inline constexpr std::size_t max_elements = 64;

/// How deep values may be nested, so that neither side runs out of stack.
template <class Error>
class nesting {
public:
  explicit nesting(int& depth) : depth_(depth) {
    if (depth_ >= 64) throw Error("a message nests deeper than 64 levels");
    ++depth_;
  }
  ~nesting() { --depth_; }
  nesting(const nesting&) = delete;
  nesting& operator=(const nesting&) = delete;

private:
  int& depth_;
};

/// Elements that take no bytes: the message does not bound their number, so it is limited over the
/// whole message.
template <class Error>
class empty_elements {
public:
  void count_one() {
    if (++count_ > 65'536)
      throw Error("the containers of a message hold more than 65,536 elements without content");
  }

private:
  std::uint32_t count_ = 0;
};

}  // namespace troupe::detail
