#include "troupe/actors/membership/member_descriptor.hpp"

#include <tuple>

#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::detail {

namespace {

constexpr std::size_t most_bytes = max_member_address;

// On the wire a device is the number of libtorch's device type and its own, a byte each.
using wire_place = std::pair<std::uint8_t, std::uint8_t>;

struct wire_descriptor {
  std::map<std::uint8_t, std::uint8_t> devices;  // how many of each type
  std::vector<wire_place> usable;
  std::map<std::string, std::vector<std::pair<wire_place, wire_place>>> maps;
  std::vector<std::byte> address;
  std::string transport_name;
  std::uint8_t transport = 0;
  std::uint32_t window_messages = 0;
  std::uint64_t window_bytes = 0;
  std::int64_t hang_limit_ms = 0;
  std::uint8_t on_leader_loss = 0;
  std::uint8_t encryption = 0;
};
constexpr auto troupe_fields(const wire_descriptor*) {
  return std::make_tuple(&wire_descriptor::devices, &wire_descriptor::usable,
                         &wire_descriptor::maps, &wire_descriptor::address,
                         &wire_descriptor::transport_name, &wire_descriptor::transport,
                         &wire_descriptor::window_messages, &wire_descriptor::window_bytes,
                         &wire_descriptor::hang_limit_ms, &wire_descriptor::on_leader_loss,
                         &wire_descriptor::encryption);
}

template <class Enum>
Enum choice(std::uint8_t number, Enum last, const char* what) {
  if (number > static_cast<std::uint8_t>(last))
    throw decode_error("a node's descriptor has " + std::string(what) + " number " +
                       std::to_string(number));
  return static_cast<Enum>(number);
}

wire_place on_wire(const memory_place& place) {
  return {static_cast<std::uint8_t>(place.where), static_cast<std::uint8_t>(place.device)};
}

memory_place::kind read_type(std::uint8_t number) {
  if (number >= device_types)
    throw decode_error("a node's descriptor names the device type " + std::to_string(number));
  return static_cast<memory_place::kind>(number);
}

memory_place read_place(const wire_place& in) {
  if (in.second >= most_devices || (in.first == 0 && in.second > 0))
    throw decode_error("a node's descriptor names device " + std::to_string(in.second) +
                       " of the type " + std::to_string(in.first));
  return {read_type(in.first), static_cast<std::int8_t>(in.second)};
}

}  // namespace

std::vector<std::byte> write_descriptor(const member_descriptor& what) {
  wire_descriptor out;
  for (const auto& [type, count] : what.devices.all.counts)
    out.devices[static_cast<std::uint8_t>(type)] = count;
  for (const auto& place : what.devices.usable) out.usable.push_back(on_wire(place));
  for (const auto& [name, map] : what.devices.maps) {
    auto& to = out.maps[name];
    for (const auto& e : map) to.emplace_back(on_wire(e.here), on_wire(e.there));
  }
  out.address = what.address;
  out.transport = static_cast<std::uint8_t>(what.rules.transport);
  out.window_messages = what.rules.window.messages;
  out.window_bytes = what.rules.window.bytes;
  out.hang_limit_ms = what.rules.hang_limit.count();
  out.on_leader_loss = static_cast<std::uint8_t>(what.rules.on_leader_loss);
  out.transport_name = what.rules.transport_name;
  out.encryption = static_cast<std::uint8_t>(what.rules.encryption);
  encoder text(nullptr, nullptr);
  text.put(out);
  auto bytes = text.take();
  if (bytes.size() > most_bytes)
    throw invalid_argument("the device maps for " + std::to_string(out.maps.size()) +
                           " callees take " + std::to_string(bytes.size()) +
                           " bytes with the node's address; " + std::to_string(most_bytes) +
                           " are possible");
  return bytes;
}

member_descriptor read_descriptor(std::span<const std::byte> bytes) {
  if (bytes.size() > most_bytes)
    throw decode_error("a node's descriptor has " + std::to_string(bytes.size()) + " bytes");
  decoder text(bytes, nullptr, nullptr);
  auto in = text.get<wire_descriptor>();
  text.expect_end();
  member_descriptor out;
  for (const auto& [type, count] : in.devices) {
    if (type == 0 || count == 0 || count > most_devices)
      throw decode_error("a node's descriptor claims " + std::to_string(count) +
                         " devices of the type " + std::to_string(type));
    out.devices.all.counts[read_type(type)] = count;
  }
  for (const auto& place : in.usable) out.devices.usable.push_back(read_place(place));
  for (const auto& [name, map] : in.maps) {
    if (name.size() > max_member_name)
      throw decode_error("a node's descriptor names a worker with " + std::to_string(name.size()) +
                         " characters");
    if (map.size() > device_types * std::size_t{most_devices})
      throw decode_error("a node's descriptor has a map of " + std::to_string(map.size()) +
                         " devices");
    auto& to = out.devices.maps[name];
    for (const auto& [here, there] : map) to.push_back({read_place(here), read_place(there)});
  }
  out.address = std::move(in.address);
  out.rules.transport = choice(in.transport, backend::ucx_tcp, "transport");
  out.rules.window = {in.window_messages, in.window_bytes};
  out.rules.hang_limit = std::chrono::milliseconds(in.hang_limit_ms);
  out.rules.on_leader_loss = choice(in.on_leader_loss, leader_loss::elect, "answer to a loss");
  out.rules.encryption = choice(in.encryption, stream_protection::encrypt, "protection");
  if (in.transport_name.size() > max_member_name)
    throw decode_error("a node's descriptor names a transport with " +
                       std::to_string(in.transport_name.size()) + " characters");
  out.rules.transport_name = std::move(in.transport_name);
  return out;
}

device_owner owner_of(const member& who) {
  return {who.rank, worker_names(who.name), read_descriptor(who.address).devices};
}

void check_descriptors(const membership_view& all, std::optional<transport::rank_t> self,
                       bool may_come) {
  std::vector<device_owner> owners;
  std::string first;
  job_rules rules;
  std::string difference;
  for (const auto& [rank, who] : all.members) {
    try {
      auto what = read_descriptor(who.address);
      if (first.empty()) {
        first = describe(who);
        rules = what.rules;
      }
      if (difference.empty()) difference = rules_problem(first, rules, describe(who), what.rules);
      owners.push_back({who.rank, worker_names(who.name), std::move(what.devices)});
    } catch (const decode_error& e) {
      throw rendezvous_error("the descriptor of " + describe(who) +
                             " cannot be read: " + e.fault().text);
    }
  }
  if (!difference.empty()) throw rendezvous_error(difference);
  const auto problem = find_device_problem(owners, self, may_come);
  if (!problem) return;
  if (!self || problem->giver == *self) throw invalid_argument(problem->text);
  throw rendezvous_error("a device map is wrong: " + problem->text);
}

}  // namespace troupe::detail
