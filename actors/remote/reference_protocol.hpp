#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe {

class decoder;
class encoder;
class peer;
struct fault;

namespace detail {

class future_core;
class rref_use;

/// What messages need of a node's references to values of other nodes; rref_table implements it.
/// Thread-safe.
class reference_protocol {
public:
  using claims = std::vector<std::shared_ptr<future_core>>;

  virtual ~reference_protocol() = default;

  /// Writes a reference for `to`. Throws why it cannot be used, encode_error.
  virtual written_reference write(encoder& out, const std::shared_ptr<rref_use>& one, peer& to) = 0;

  /// Keeps a reference for a call that wants only its value. Throws like `write`.
  virtual written_reference lend(const std::shared_ptr<rref_use>& one) = 0;
  virtual rref_id id_of(const rref_use& one) const noexcept = 0;

  /// What was written was not sent, or not read.
  virtual void take_back(const written_reference& written, const peer& to) noexcept = 0;

  /// Reads a reference that `from` has sent; `unconfirmed` gets it, if its owner has yet to confirm
  /// it. Throws decode_error.
  virtual std::shared_ptr<rref_use> read(decoder& in, peer& from, std::uint64_t type,
                                         std::string_view type_name, claims& unconfirmed) = 0;

  /// A message of another node's table. Throws decode_error.
  virtual void deliver(decoder& in, peer& from) = 0;

  /// `whom` is gone.
  virtual void evict(const peer& whom) = 0;

  /// The node ends.
  virtual void close(const fault& why) = 0;

  /// Does no reference that has come wait for its owner?
  virtual bool settled() const = 0;
};

}  // namespace detail

}  // namespace troupe
