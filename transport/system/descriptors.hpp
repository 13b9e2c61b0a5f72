#pragma once

#include <cstddef>
#include <string>

namespace troupe::transport {

/// How many file descriptors this process has among the numbers that new ones may get, and how many
/// such numbers there are.
struct descriptor_use {
  std::size_t open = 0;
  std::size_t limit = 0;

  bool scarce() const noexcept { return open + 4 > limit; }
};

/// Opens no descriptor itself.
descriptor_use descriptors();

/// Raises the soft limit of descriptors (ulimit -n) to the hard one. Nodes need some for every
/// peer; many systems give programs a soft limit of 1,024 and a much higher hard one.
void raise_descriptor_limit() noexcept;

/// An upper bound of the descriptors that a node with so many peers opens, over UCX or TCP with so
/// many streams for large payloads. Measured, with a margin: see
/// tests/actors/node/descriptors_test.cpp.
std::size_t descriptors_of_node(std::size_t peers, std::size_t streams) noexcept;

/// Throws transport_error, with the numbers and how to raise the limit, if this process may not
/// open `more` of them `for_what`.
void need_descriptors(std::size_t more, const std::string& for_what);

/// "; this process has 64 of the 64 descriptors that it may have (ulimit -n)" if it has, else
/// nothing: for errors whose cause that may be.
std::string descriptor_shortage();

/// `text` followed by that clause, unless it ends with it already.
std::string with_descriptor_shortage(const std::string& text);

}  // namespace troupe::transport
