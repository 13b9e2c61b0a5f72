#include "troupe/actors/cluster/device_directory.hpp"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::detail {

namespace {

memory_place parse(const std::string& text, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    throw invalid_argument(where + ": '" + text + "' " + why +
                           "; devices are called cpu, cuda:0, cuda:1 and so on, as libtorch does");
  };
  std::optional<c10::Device> device;
  try {
    device = c10::Device(text);
  } catch (const c10::Error&) {
    refuse("is no device");
  }
  if (device->is_cpu()) return {};
  if (device->is_meta()) refuse("has no memory");
  if (!device->has_index()) refuse("does not say which device");
  if (device->str() != text) refuse("is no device");  // libtorch keeps eight bits of the number
  return place_of(*device);
}

std::string described(const device_owner& who) {
  return "rank " + std::to_string(who.rank) + " ('" + who.names.front() + "')";
}

bool has(const device_owner& who, const memory_place& place) {
  return place.where == memory_place::kind::host ||
         place.device < who.devices.all.count(place.where);
}

bool may_use(const device_owner& who, const memory_place& place) {
  const auto& usable = who.devices.usable;
  return place.where == memory_place::kind::host || usable.empty() ||
         std::find(usable.begin(), usable.end(), place) != usable.end();
}

// "2 devices cuda", of the type of `place`.
std::string described_count(const device_directory& of, const memory_place& place) {
  const auto name = c10::DeviceTypeName(static_cast<c10::DeviceType>(place.where), true);
  const int count = of.count(place.where);
  if (count == 0) return "no " + name + " device";
  return std::to_string(count) + " " + name + (count == 1 ? " device" : " devices");
}

std::string list(const std::vector<memory_place>& places) {
  std::string out;
  for (const auto& place : places) out += (out.empty() ? "" : ", ") + to_string(place);
  return out;
}

// "rank 0 ('a') maps cuda:0 to cuda:1 of 'b'"
std::string sentence(const device_owner& giver, const device_route::entry& e,
                     const std::string& callee) {
  return described(giver) + " maps " + to_string(e.here) + " to " + to_string(e.there) + " of " +
         callee;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

using entries = std::vector<device_route::entry>;

std::string one_to_one_problem(const device_owner& giver, const std::string& callee,
                               const entries& map) {
  for (auto e = map.begin(); e != map.end(); ++e)
    for (auto before = map.begin(); before != e; ++before) {
      if (before->here == e->here)
        return sentence(giver, *before, quoted(callee)) + " and to " + to_string(e->there) +
               ": a device map must be one to one";
      if (before->there == e->there)
        return described(giver) + " maps both " + to_string(before->here) + " and " +
               to_string(e->here) + " to " + to_string(e->there) + " of " + quoted(callee) +
               ": a device map must be one to one";
    }
  return "";
}

// The names of `callee` by which `giver` has maps for it.
std::vector<std::string> named_in(const device_owner& giver, const device_owner& callee) {
  std::vector<std::string> out;
  for (const auto& name : callee.names)
    if (giver.devices.maps.contains(name)) out.push_back(name);
  return out;
}

device_route route_between(const device_owner& giver, const device_owner& callee) {
  for (const auto& name : callee.names)
    if (const auto place = giver.devices.maps.find(name); place != giver.devices.maps.end())
      return {place->second, giver.names.front(), callee.names.front()};
  if (giver.rank == callee.rank) return device_route::in_place();
  return {{}, giver.names.front(), callee.names.front()};
}

}  // namespace

device_directory device_directory::here() {
  device_directory out;
  for (const auto& [type, count] : devices_here())
    out.counts[type] = static_cast<std::uint8_t>(count);
  return out;
}

void check_devices(const std::vector<std::string>& devices, const device_directory& here) {
  for (const auto& text : devices)
    if (const auto place = parse(text, "rpc_options::devices");
        place.where != memory_place::kind::host && place.device >= here.count(place.where))
      throw invalid_argument("rpc_options::devices has '" + text + "', but libtorch finds " +
                             described_count(here, place) + " in this process");
}

device_options read_device_options(const std::vector<std::string>& devices,
                                   const std::map<std::string, device_map>& maps,
                                   const device_directory& here) {
  device_options out;
  out.all = here;
  for (const auto& text : devices)
    if (const auto place = parse(text, "rpc_options::devices");
        place.where != memory_place::kind::host)
      out.usable.push_back(place);
  for (const auto& [name, map] : maps) {
    const auto where = "the device map for '" + name + "'";
    auto& to = out.maps[name];
    for (const auto& pair : map) to.push_back({parse(pair.here, where), parse(pair.there, where)});
  }
  return out;
}

std::string own_device_problem(const device_owner& giver) {
  for (const auto& place : giver.devices.usable)
    if (!has(giver, place))
      return described(giver) + " has " + to_string(place) +
             " among its rpc_options::devices, but " + described_count(giver.devices.all, place);
  for (const auto& [callee, map] : giver.devices.maps) {
    for (const auto& e : map) {
      if (!has(giver, e.here))
        return sentence(giver, e, quoted(callee)) + ", but has " +
               described_count(giver.devices.all, e.here) + " itself";
      if (!may_use(giver, e.here))
        return sentence(giver, e, quoted(callee)) + ", but its own rpc_options::devices are " +
               list(giver.devices.usable);
    }
    if (auto problem = one_to_one_problem(giver, callee, map); !problem.empty()) return problem;
  }
  return "";
}

std::string device_problem_between(const device_owner& giver, const device_owner& callee) {
  const auto names = named_in(giver, callee);
  if (names.empty()) return "";
  if (names.size() > 1)
    return described(giver) + " has two device maps for " + described(callee) + ", by its names '" +
           names[0] + "' and '" + names[1] + "'";
  for (const auto& e : giver.devices.maps.at(names.front())) {
    if (!has(callee, e.there))
      return sentence(giver, e, described(callee)) + ", which has " +
             described_count(callee.devices.all, e.there);
    if (!may_use(callee, e.there))
      return sentence(giver, e, described(callee)) + ", whose rpc_options::devices are " +
             list(callee.devices.usable);
  }
  return "";
}

std::optional<device_problem> find_device_problem(const std::vector<device_owner>& all,
                                                  std::optional<transport::rank_t> first,
                                                  bool may_come) {
  std::map<std::string, const device_owner*> by_name;
  for (const auto& one : all)
    for (const auto& name : one.names) by_name[name] = &one;
  const auto problem_of = [&](const device_owner& giver) -> std::string {
    if (auto problem = own_device_problem(giver); !problem.empty()) return problem;
    for (const auto& [name, map] : giver.devices.maps) {
      const auto callee = by_name.find(name);
      if (callee == by_name.end()) {
        if (may_come) continue;
        return described(giver) + " has a device map for '" + name +
               "', but no node of the job is called that";
      }
      if (auto problem = device_problem_between(giver, *callee->second); !problem.empty())
        return problem;
    }
    return "";
  };
  std::optional<device_problem> found;
  for (const auto& one : all) {
    if (found && one.rank != first) continue;
    if (auto text = problem_of(one); !text.empty()) found = {one.rank, std::move(text)};
  }
  return found;
}

peer_devices devices_between(const device_owner& self, const device_owner& other) {
  peer_devices out{other, route_between(self, other), route_between(other, self).inverse(), {}};
  if (self.rank != other.rank) out.usable = self.devices.usable;
  return out;
}

}  // namespace troupe::detail
