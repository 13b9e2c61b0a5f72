#include "actors/function_table.hpp"

#include "messages/link_table.hpp"

namespace troupe {

namespace {

link_table<function_entry>& functions() {
  // Never destroyed: calls may arrive while the process ends.
  static auto* table = new link_table<function_entry>;
  return *table;
}

}  // namespace

bool add_function(const function_entry& entry) {
  const auto* present = functions().insert(entry.hash, &entry);
  if (!present) throw internal_error("more than 16,384 functions");
  if (present->invoke != entry.invoke)
    throw internal_error("two functions are called " + std::string(entry.name) +
                         " and have one type, so a caller cannot tell them apart: rename one");
  return true;
}

const function_entry* find_function(std::uint64_t hash) noexcept { return functions().find(hash); }

}  // namespace troupe
