#include "troupe/actors/groups/process_group/group_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/network/channel_exchange.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/actors/groups/network/network_backend.hpp"
#include "troupe/actors/groups/tracing/debug_level.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups {

namespace {

// What the members compare before the group begins.
std::vector<std::byte> fingerprint_of(const group_description& about) {
  encoder out(nullptr, nullptr);
  out.put(about.name);
  out.put(about.description);
  out.put(static_cast<std::int64_t>(about.timeout.count()));
  out.put(about.backends);
  out.put(about.backend_options);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> members;
  for (const auto& one : about.members) members.emplace_back(one.node, one.actor);
  out.put(members);
  return out.take();
}

// In words, where two of them differ.
std::string difference_of(std::span<const std::byte> mine, std::span<const std::byte> others) {
  const auto read = [](std::span<const std::byte> bytes) {
    decoder in(bytes, nullptr, nullptr);
    std::vector<std::string> out;
    out.push_back(fmt::format("name '{}'", in.get<std::string>()));
    out.push_back(fmt::format("description '{}'", in.get<std::string>()));
    out.push_back(fmt::format("a timeout of {} ms", in.get<std::int64_t>()));
    const auto listed = [](const std::map<std::string, std::string>& all) {
      std::string text;
      for (const auto& [key, value] : all)
        text += fmt::format("{}{}:{}", text.empty() ? "" : ",", key, value);
      return text;
    };
    out.push_back(
        fmt::format("backend \"{}\"", listed(in.get<std::map<std::string, std::string>>())));
    out.push_back(fmt::format("backend options \"{}\"",
                              listed(in.get<std::map<std::string, std::string>>())));
    std::string ranks;
    for (const auto& [node, actor] :
         in.get<std::vector<std::pair<std::uint32_t, std::uint64_t>>>()) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : " ", node);
      if (actor != 0) ranks += fmt::format(":{}", actor);
    }
    out.push_back(fmt::format("ranks {}", ranks));
    return out;
  };
  const auto here = read(mine), there = read(others);
  for (std::size_t i = 0; i < here.size(); ++i)
    if (here[i] != there[i]) return fmt::format("{} instead of {}", there[i], here[i]);
  return "something else";
}

// Backends of others may have options of any name.
void check_options(const group_description& about) {
  for (const auto& [device, name] : about.backends)
    if (name != "troupe" && name != "network" && name != "hosts" && name != "nccl") return;
  const bool has_nccl =
      std::ranges::any_of(about.backends, [](const auto& one) { return one.second == "nccl"; });
  for (const auto& [name, value] : about.backend_options)
    if (name != "collectives" && !(has_nccl && name.starts_with("nccl.")))
      throw invalid_argument(
          fmt::format("no backend of group '{}' has an option '{}': they have 'collectives'{}",
                      about.name, name, has_nccl ? " and 'nccl.'" : " alone"));
}

std::unique_ptr<group_backends> agree(const group_description& about,
                                      const std::shared_ptr<network::group_channel>& channel,
                                      node_core& here, std::chrono::milliseconds limit) {
  const time_limit until(limit);
  network::channel_exchange exchange(*channel, until);
  const auto mine = fingerprint_of(about);
  const auto all = exchange.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != mine)
      throw collective_mismatch(fmt::format(
          "the members of group '{}' disagree on what it is: rank {} has {}, on rank {}",
          about.name, rank, difference_of(mine, all[rank]), about.rank));
  auto out = std::make_unique<group_backends>();
  backend_request request;
  request.group = about.name;
  request.rank = about.rank;
  request.members = about.members;
  request.timeout = about.timeout;
  request.options = about.backend_options;
  request.device = about.device;
  request.exchange = &exchange;
  request.node = &here;
  request.channel = channel;
  std::string problem;
  std::exception_ptr thrown;
  std::map<std::string, std::shared_ptr<backend>> by_name;
  try {
    check_options(about);
    for (const auto& [device, name] : about.backends) {
      auto& one = by_name[name];
      if (!one) one = find_backend(name).make(request);
      if (!one) throw invalid_argument(fmt::format("the factory of backend '{}' made none", name));
      // One of the CPU takes tensors of others through the host.
      const auto takes = find_backend(name).devices;
      const bool by_host = device == any_device || std::ranges::find(takes, device) == takes.end();
      auto& to = out->of(by_host ? c10::DeviceType::CPU : c10::Device(device).type());
      if (std::ranges::find(to, one) == to.end()) to.push_back(one);
    }
  } catch (const std::exception& e) {
    thrown = std::current_exception();
    problem = e.what();
  } catch (...) {
    // Of a factory of somebody else.
    thrown = std::current_exception();
    problem = describe(thrown, {}, {}).text;
  }
  // A group is made everywhere or nowhere. The debug level, which may differ, comes first.
  problem.insert(problem.begin(), get_debug_level() == debug_level::detail ? 'd' : ' ');
  const auto* const text = reinterpret_cast<const std::byte*>(problem.data());
  auto problems = exchange.all_gather({text, problem.size()});
  if (thrown) std::rethrow_exception(thrown);
  for (auto& one : problems) {
    if (one.empty()) throw decode_error("a member of a group does not say what has become of it");
    if (one.front() == std::byte{'d'}) out->checks_in_full = true;
    one.erase(one.begin());
  }
  for (std::size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty())
      throw group_failed(
          fmt::format("group '{}' was not made, since rank {} could not: {}", about.name, rank,
                      std::string(reinterpret_cast<const char*>(problems[rank].data()),
                                  problems[rank].size())));
  // What the named ones do not do is done by messages.
  auto& on_cpu = out->of(c10::DeviceType::CPU);
  if (on_cpu.empty() || on_cpu.back()->name() != "network")
    on_cpu.push_back(std::make_shared<network::network_backend>(channel));
  return out;
}

}  // namespace

std::vector<std::shared_ptr<backend>> group_backends::all() const {
  std::vector<std::shared_ptr<backend>> out;
  for (const auto& some : by_device) out.insert(out.end(), some.begin(), some.end());
  return out;
}

std::unique_ptr<group_backends> agree_on(const group_description& about,
                                         const std::shared_ptr<network::group_channel>& channel,
                                         node_core& here, std::chrono::milliseconds limit) {
  // What has become of another rank does not say where it was missed.
  const auto placed = [&](fault why) {
    if (!why.text.starts_with(fmt::format("group '{}' was not made", about.name)))
      why.text =
          fmt::format("group '{}' was not made on rank {}: {}", about.name, about.rank, why.text);
    return why;
  };
  try {
    return agree(about, channel, here, limit);
  } catch (const peer_lost& e) {
    throw peer_lost(placed(e.fault()));
  } catch (const group_failed& e) {
    throw group_failed(placed(e.fault()));
  }
}

}  // namespace troupe::groups
