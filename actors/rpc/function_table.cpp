#include "troupe/actors/rpc/function_table.hpp"

#include "troupe/messages/base/link_table.hpp"

namespace troupe {

namespace {

link_table<function_entry>& functions() {
  // Never destroyed: calls may arrive while the process ends.
  static auto* table = new link_table<function_entry>;
  return *table;
}

// The table does without the lowest bit.
std::uint64_t key_of(std::uint64_t hash) { return name_part(hash) << 1; }

}  // namespace

bool add_function(const function_entry& entry) {
  const auto* present = functions().insert(key_of(entry.hash), &entry);
  if (!present) throw internal_error("more than 16,384 functions");
  if (present->name != entry.name)
    throw internal_error("the functions " + std::string(present->name) + " and " +
                         std::string(entry.name) + " have one hash: rename one of them");
  if (present->invoke != entry.invoke)
    throw internal_error("two functions are called " + std::string(entry.name) +
                         " and have one type, so a caller cannot tell them apart: rename one");
  return true;
}

const function_entry* find_function(std::uint64_t hash) noexcept {
  return functions().find(key_of(hash));
}

}  // namespace troupe
