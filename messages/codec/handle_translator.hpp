#pragma once

#include <caf/fwd.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace troupe {

namespace detail {

/// What an `rref` refers by; implemented by actors/rref.
class rref_use;

}  // namespace detail

class encoder;
class decoder;

/// Translates actor handles and remote references where they enter or leave a node: a written
/// handle names a node and an actor or value of it; a handle that is read becomes the actor itself
/// or a proxy of it, or a reference of this node.
class handle_translator {
public:
  virtual ~handle_translator() = default;

  /// Sender and receiver of what is read, for errors.
  struct node_names {
    std::string sender = "its sender";
    std::string receiver = "its receiver";
  };
  virtual node_names nodes() const { return {}; }

  /// `handle` may be null. Throws encode_error.
  virtual void write(encoder& out, const caf::strong_actor_ptr& handle) = 0;

  /// Throws decode_error.
  virtual caf::strong_actor_ptr read(decoder& in) = 0;

  /// `reference` may be null. Throws encode_error, or the error of a reference that has failed.
  virtual void write_reference(encoder& out, const std::shared_ptr<detail::rref_use>& reference);

  /// Reads a reference to a value of the type of that hash and name. Throws decode_error.
  virtual std::shared_ptr<detail::rref_use> read_reference(decoder& in, std::uint64_t type,
                                                           std::string_view type_name);
};

}  // namespace troupe
