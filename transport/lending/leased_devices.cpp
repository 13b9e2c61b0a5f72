#include "troupe/transport/lending/leased_devices.hpp"

#include <c10/core/DeviceType.h>

#include <algorithm>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::transport::lending {

std::vector<named_device> devices_that_open() {
  std::vector<named_device> out;
  for (const auto& [type, count] : detail::devices_here()) {
    const auto how = find_device_ipc(type);
    for (int i = 0; how && i < count; ++i) {
      const memory_place place{type, static_cast<std::int8_t>(i)};
      try {
        auto identity = how->identity(i);
        if (!identity.empty() && identity.size() <= device_ipc::most_identity)
          out.push_back({place, std::move(identity)});
      } catch (const transport_error& e) {
        log().warn("memory of other processes cannot be opened on {}: {}", to_string(place),
                   e.fault().text);
      }
    }
  }
  return out;
}

std::string reached_devices::why_not(const memory_place& here, const memory_place& there) const {
  if (here.where != there.where) return "the two devices have different types";
  const auto found =
      std::ranges::find_if(devices_, [&](const auto& d) { return d.place == there; });
  if (found == devices_.end())
    return "the other process does not open memory on " + to_string(there);
  // Types do not matter: `there` has the one of `here`.
  const auto index = found - devices_.begin();
  const auto bit = here.device >= 0 && here.device < most_known && index < most_known
                       ? std::uint64_t{1} << (here.device * most_known + index)
                       : 0;
  if ((known_.load(std::memory_order_relaxed) & bit) != 0) return "";
  const auto how = find_device_ipc(here.where);
  if (!how)
    return "this process does not know how others open memory of devices of the type " +
           c10::DeviceTypeName(static_cast<c10::DeviceType>(here.where), true);
  try {
    auto why = how->why_not_reached(here.device, found->identity);
    if (why.empty()) known_.fetch_or(bit, std::memory_order_relaxed);
    return why;
  } catch (const transport_error& e) {
    return e.fault().text;
  }
}

// A device's type, its number, the length of its identity, its identity.
std::vector<std::byte> encode(const std::vector<named_device>& devices) {
  std::vector<std::byte> out;
  for (const auto& one : devices) {
    out.push_back(static_cast<std::byte>(one.place.where));
    out.push_back(static_cast<std::byte>(one.place.device));
    out.push_back(static_cast<std::byte>(one.identity.size()));
    const auto* const text = reinterpret_cast<const std::byte*>(one.identity.data());
    out.insert(out.end(), text, text + one.identity.size());
  }
  return out;
}

std::vector<named_device> decode_devices(std::span<const std::byte> bytes) {
  std::vector<named_device> out;
  while (!bytes.empty()) {
    const auto length = bytes.size() < 3 ? 0 : std::to_integer<std::size_t>(bytes[2]);
    if (length == 0 || length > device_ipc::most_identity || length > bytes.size() - 3)
      throw decode_error("an address whose devices cannot be read");
    const auto* const text = reinterpret_cast<const char*>(bytes.data()) + 3;
    out.push_back({{static_cast<memory_place::kind>(bytes[0]), static_cast<std::int8_t>(bytes[1])},
                   std::string(text, length)});
    bytes = bytes.subspan(3 + length);
  }
  return out;
}

}  // namespace troupe::transport::lending
