#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/messages/memory/payload.hpp"

namespace troupe {

/// "cpu", "cuda:1". Pre: a device type that libtorch has.
std::string to_string(const memory_place& place);

/// Maps the device that a tensor lies on to the receiver's device on which it arrives, for one
/// sender and one receiver. Immutable; any thread.
///
/// Host memory without an entry arrives as host memory. Another device without an entry is refused.
class device_route {
public:
  struct entry {
    memory_place here;   ///< the sender's
    memory_place there;  ///< the receiver's

    friend bool operator==(const entry&, const entry&) = default;
  };

  /// Nothing but host memory can be sent.
  device_route() = default;

  /// Pre: one to one, if `inverse` is called. Errors say that tensors go `from` one node `to` the
  /// other.
  device_route(std::vector<entry> entries, std::string from, std::string to);

  /// Tensors stay where they are: from a node to itself.
  static device_route in_place();

  /// Everything arrives in host memory.
  static device_route to_host();

  /// The reverse route, for answers and gradients: its errors say that the map belongs to the other
  /// side.
  device_route inverse() const;

  /// The device on which a tensor at `here` arrives. Throws encode_error, naming the missing map,
  /// if there is none.
  memory_place landing(memory_place here) const {
    if (keeps_host_ && here.where == memory_place::kind::host) return here;
    return find(here);
  }

  const std::vector<entry>& entries() const noexcept { return entries_; }

private:
  memory_place find(memory_place here) const;

  std::vector<entry> entries_;
  std::string from_;
  std::string to_;
  bool back_ = false;
  bool in_place_ = false;
  bool to_host_ = false;
  bool keeps_host_ = true;
};

}  // namespace troupe
