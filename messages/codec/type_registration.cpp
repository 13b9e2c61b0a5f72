#include "troupe/messages/codec/type_registration.hpp"

#include <caf/atom.hpp>
#include <caf/duration.hpp>
#include <caf/node_id.hpp>
#include <caf/system_messages.hpp>
#include <caf/unit.hpp>

namespace troupe {

namespace {

// What may travel without a registration of its own.
template <class... Ts>
bool add_all() {
  return (detail::type_registration<Ts>::done && ...);
}

[[maybe_unused]] const bool built_in =
    add_all<bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
            std::uint32_t, std::int64_t, std::uint64_t, float, double, std::string,
            std::vector<std::string>, caf::atom_value, caf::unit_t, caf::actor,
            caf::strong_actor_ptr, caf::actor_addr, caf::error, caf::down_msg, caf::exit_msg,
            caf::message, std::vector<char>, std::vector<std::int64_t>, std::vector<double>,
            std::vector<float>>();

}  // namespace

bool detail::enter_type(const type_entry& entry) { return add_type(entry); }

}  // namespace troupe
