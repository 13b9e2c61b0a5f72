#pragma once

#include <caf/fwd.hpp>

namespace troupe {

class encoder;
class decoder;

/// Translates actor handles at the border of a node: what is written names a node and an actor of
/// it, what is read becomes the actor itself or a proxy of it. Implementations are thread-safe.
class handle_translator {
public:
  virtual ~handle_translator() = default;

  /// `handle` may be null. Throws encode_error.
  virtual void write(encoder& out, const caf::strong_actor_ptr& handle) = 0;

  /// Throws decode_error.
  virtual caf::strong_actor_ptr read(decoder& in) = 0;
};

}  // namespace troupe
