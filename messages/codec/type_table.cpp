#include "troupe/messages/codec/type_table.hpp"

#include <array>
#include <atomic>
#include <caf/type_nr.hpp>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/link_table.hpp"
#include "troupe/messages/codec/type_identity.hpp"

namespace troupe {

namespace {

struct tables {
  link_table<type_entry> by_name;
  link_table<type_entry> by_type;
  std::array<std::atomic<const type_entry*>, caf::type_nrs> by_number{};
};

tables& all() {
  // Never destroyed: threads may still look things up while the process ends.
  static auto* instance = new tables;
  return *instance;
}

// The table does without the lowest bit.
std::uint64_t key_of(std::uint64_t hash) { return name_part(hash) << 1; }

std::uint64_t address_key(const std::type_info* type) {
  auto bits = reinterpret_cast<std::uintptr_t>(type);
  return (bits >> 4) * 0x9e3779b97f4a7c15ull >> 16 << 1;
}

}  // namespace

bool add_type(const type_entry& entry) {
  const auto* present = all().by_name.insert(key_of(entry.hash), &entry);
  if (!present) throw internal_error("more than 16,384 message types");
  if (present->name != entry.name)
    throw internal_error("the message types " + std::string(present->name) + " and " +
                         std::string(entry.name) + " have one hash: rename one of them");
  // Nameless namespaces of two files differ for the compiler, but have one name.
  if (*present->type != *entry.type)
    throw internal_error("two message types are named " + std::string(entry.name) +
                         ": rename one of them");
  // Pairs with the load in `find_type`: publishes the entry.
  if (entry.number != 0)
    all().by_number[entry.number].store(&entry, std::memory_order_release);
  else
    all().by_type.insert(address_key(entry.type), &entry);
  return true;
}

const type_entry* find_type(std::uint64_t hash) noexcept {
  return all().by_name.find(key_of(hash));
}

const type_entry* find_type(caf::rtti_pair type) noexcept {
  // The acquire pairs with the store in `add_type`: an entry that is found is complete.
  if (type.first != 0)
    return type.first < caf::type_nrs ? all().by_number[type.first].load(std::memory_order_acquire)
                                      : nullptr;
  const auto* entry = all().by_type.find(address_key(type.second));
  return entry && *entry->type == *type.second ? entry : nullptr;
}

}  // namespace troupe
