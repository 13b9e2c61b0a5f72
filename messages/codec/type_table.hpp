#pragma once

#include <caf/fwd.hpp>
#include <caf/rtti_pair.hpp>
#include <caf/type_erased_value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>

namespace troupe {

class encoder;
class decoder;

/// How values of one type travel as elements of CAF messages.
struct type_entry {
  std::uint64_t hash;  ///< its identity: of its name and its structure
  std::string_view name;
  const std::type_info* type;
  std::uint16_t number;  ///< CAF's, for its built-in types; else 0
  void (*encode)(encoder&, const void*);
  caf::type_erased_value_ptr (*decode)(decoder&);
  caf::message (*decode_message)(decoder&);  ///< a message of just this element
  std::string (*structure)();                ///< see type_structure
};

/// Adds a type; does nothing when it is there already. `entry` is kept by reference for the life of
/// the process. Throws internal_error when two types share a hash or a name, or there are more than
/// 16,384.
bool add_type(const type_entry& entry);

/// The entry of a type that may travel; nullptr if there is none. If the entry has another hash, it
/// is of another type of the same name.
const type_entry* find_type(std::uint64_t hash) noexcept;
const type_entry* find_type(caf::rtti_pair type) noexcept;

}  // namespace troupe
