#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "troupe/messages/codec/type_registration.hpp"

namespace troupe {

/// Names a value that one node owns, in the whole job: its creator, its owner, and the creator's
/// number for it, which counts the values that this creator has made on this owner. Incarnations
/// tell a node that has come back from the one before. Sendable, comparable, hashable.
struct rref_id {
  std::uint32_t creator = 0;  ///< a rank
  std::uint32_t owner = 0;    ///< a rank
  std::uint64_t creator_incarnation = 0;
  std::uint64_t owner_incarnation = 0;
  std::uint64_t number = 0;  ///< from 1

  friend bool operator==(const rref_id&, const rref_id&) = default;
  friend std::ostream& operator<<(std::ostream& out, const rref_id& id) {
    return out << "rref_id(created_on=" << id.creator << ", owner=" << id.owner
               << ", local_id=" << id.number << ')';
  }
};
TROUPE_MESSAGE_EXTERN(rref_id, creator, owner, creator_incarnation, owner_incarnation, number)

/// As an ostream would print it.
std::string to_string(const rref_id& id);

namespace detail {

class rref_use;

/// What a message that may not have been sent has given away.
struct written_reference {
  rref_id id;
  std::uint64_t use = 0;             ///< granted by the owner
  std::uint64_t pin = 0;             ///< kept by a node that is not the owner
  std::shared_ptr<rref_use> lent{};  ///< kept until the call has been answered
};

}  // namespace detail

}  // namespace troupe

template <>
struct std::hash<troupe::rref_id> {
  std::size_t operator()(const troupe::rref_id& id) const noexcept {
    auto mixed = id.number * 0x9e3779b97f4a7c15ull;
    mixed ^= (std::uint64_t{id.creator} << 32 | id.owner) + (mixed << 6) + (mixed >> 2);
    mixed ^= id.creator_incarnation * 0xc2b2ae3d27d4eb4full ^ id.owner_incarnation;
    return static_cast<std::size_t>(mixed ^ mixed >> 29);
  }
};
