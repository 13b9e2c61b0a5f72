#pragma once

#include <cstddef>
#include <string>

namespace troupe::transport {

/// How many file descriptors this process has among the numbers that new ones may get, and how many
/// these are.
struct descriptor_use {
  std::size_t open = 0;
  std::size_t limit = 0;

  bool scarce() const noexcept { return open + 4 > limit; }
};

/// Needs no descriptor itself.
descriptor_use descriptors();

/// Raises the soft limit of descriptors (ulimit -n) to the hard one. Nodes need some for every
/// peer; many systems give 1,024 to programs that ask for no more, and allow far more.
void raise_descriptor_limit() noexcept;

/// The most that a node with so many peers opens, over any of UCX's transports. Measured, with room
/// to spare: see tests/actors/descriptors_test.cpp.
std::size_t descriptors_of_node(std::size_t peers) noexcept;

/// Throws transport_error, which says how many there are and how to get more, if this process may
/// not open `more` of them `for_what`.
void need_descriptors(std::size_t more, const std::string& for_what);

/// "; this process has 64 of the 64 descriptors that it may have (ulimit -n)" if it has, else
/// nothing: for errors whose cause that may be.
std::string descriptor_shortage();

/// The text of such an error with that behind it, unless it is there already.
std::string with_descriptor_shortage(std::string text);

}  // namespace troupe::transport
