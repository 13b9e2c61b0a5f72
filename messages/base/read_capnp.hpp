#pragma once

#include <kj/exception.h>

#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe {

/// Runs `read`, which reads a Cap'n Proto message that another node has sent, and turns kj's
/// exceptions into a decode_error about `what`.
template <class F>
decltype(auto) read_capnp(const char* what, F&& read) {
  try {
    return std::forward<F>(read)();
  } catch (const kj::Exception& e) {
    throw decode_error(std::string(what) + " cannot be read: " + e.getDescription().cStr() + ".");
  }
}

}  // namespace troupe
