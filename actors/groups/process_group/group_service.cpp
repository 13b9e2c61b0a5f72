#include "troupe/actors/groups/process_group/group_service.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/device_backends.hpp"
#include "troupe/actors/groups/nccl/nccl_backend.hpp"
#include "troupe/actors/groups/network/agreed_ways.hpp"
#include "troupe/actors/groups/network/hosts_backend.hpp"
#include "troupe/actors/groups/network/network_backend.hpp"
#include "troupe/actors/groups/shared/shared_backend.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/actor_proxy.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups {

namespace {

std::unique_ptr<backend> make_network(const backend_request& request) {
  return std::make_unique<network::network_backend>(request.channel,
                                                    network::agree_on_places(request).ways);
}

// In the shared memory of each host and by messages between hosts, where all of several have as
// many ranks; by messages alone elsewhere.
std::unique_ptr<backend> make_hosts(const backend_request& request) {
  const auto places = network::agree_on_places(request);
  if (auto made = network::make_hosts_backend(request, places)) return made;
  return std::make_unique<network::network_backend>(request.channel, places.ways);
}

// In shared memory where all ranks are on one host.
std::unique_ptr<backend> make_troupe(const backend_request& request) {
  std::string why_not;
  if (auto made = make_shared_backend(request, why_not)) return made;
  // That ranks are on several hosts is no news.
  if (why_not.find("cannot map the memory") != std::string::npos)
    log().warn("group '{}' uses messages alone, which is slow, since {}", request.group, why_not);
  else
    log().debug("group '{}' uses messages alone, since {}", request.group, why_not);
  return make_hosts(request);
}

// Before any node is made. "troupe" is what a group takes by itself.
bool register_groups() {
  const std::string any(any_device);
  register_backend("network", {"cpu", any}, &make_network);
  register_backend("hosts", {"cpu", any}, &make_hosts);
  register_backend("troupe", {"cpu", any}, &make_troupe);
  nccl::register_nccl("nccl", "cuda");
  troupe::detail::register_protocol(
      groups_channel, [](node_core& node) { return std::make_unique<group_service>(node); });
  return true;
}

const bool groups_registered = register_groups();

std::string trace_directory_of_environment() {
  const char* const set = std::getenv("TROUPE_TRACE_DIR");
  return set ? set : "";
}

}  // namespace

group_service::group_service(node_core& node)
    : node_(node),
      founders_(*node.workers()),
      joined_(node.epoch()),
      endpoint_(
          std::make_shared<network::endpoint>(node.actors().shared_from_this(), node.driver())) {}

// Backends may use what the node has.
group_service::~group_service() {
  std::vector<std::weak_ptr<group_core>> all;
  std::shared_ptr<group_core> world;
  {
    const std::lock_guard lock(mutex_);
    all.swap(all_);
    world.swap(world_);
  }
  for (const auto& one : all)
    if (const auto group = one.lock()) group->destroy();
}

group_service& group_service::of(node_core& node) {
  node.check_open();
  auto* const found = node.protocols().find(groups_channel);
  if (!found || !groups_registered)
    throw not_initialized("this node was made before process groups were loaded: load them first");
  return static_cast<group_service&>(*found);
}

std::shared_ptr<group_core> group_service::world(const group_options& options) {
  {
    const std::lock_guard lock(mutex_);
    if (world_) return world_;
  }
  if (joined_ != 0)
    throw invalid_argument(
        fmt::format("{} joined the job at epoch {}, and is not in the world: that is the group of "
                    "the nodes that began it together. Make an actor_group of those that you want",
                    node_.self().name, joined_));
  if (options.timeout.count() < 0)
    throw invalid_argument("the timeout of a group is negative: give 0 for 30 minutes");
  group_description about;
  about.name = "world";
  for (const auto& who : founders_) {
    if (who.id == node_.self().id) about.rank = static_cast<int>(about.members.size());
    about.members.push_back({who.id, who.name});
  }
  about.description = options.description;
  about.timeout = options.timeout.count() > 0 ? options.timeout : default_group_timeout;
  about.backends = parse_backends(options.backend.empty() ? "troupe" : options.backend);
  about.backend_options = options.backend_options;
  about.trace_directory =
      options.trace_directory.empty() ? trace_directory_of_environment() : options.trace_directory;
  about.device = options.device;
  const std::lock_guard lock(mutex_);
  if (!world_) world_ = make_locked(std::move(about));
  return world_;
}

void group_service::replace_world(std::shared_ptr<group_core> by) {
  const std::lock_guard lock(mutex_);
  world_ = std::move(by);
}

std::shared_ptr<group_core> group_service::make(group_description about,
                                                const std::vector<caf::strong_actor_ptr>& actors) {
  if (about.trace_directory.empty()) about.trace_directory = trace_directory_of_environment();
  std::vector<actor_watch::watched> watched;
  for (const auto& one : actors) watched.push_back(watch_->watch(home_of(node_, one), one));
  std::shared_ptr<group_core> made;
  {
    const std::lock_guard lock(mutex_);
    made = make_locked(std::move(about));
  }
  // It fails now if one of them has ended, or is of a node that has come back since.
  const auto& members = made->about().members;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const auto& one = members[rank];
    if (one.actor == 0) continue;
    const auto& home =
        actors.empty() ? *node_.peers().find(one.node) : home_of(node_, actors[rank]);
    watch_->add(home, one.actor, made);
  }
  return made;
}

std::vector<peer*> group_service::nodes_of(const group_description& about) const {
  std::vector<peer*> out;
  for (const auto& one : about.members) {
    auto* const found = node_.peers().find(one.node);
    if (!found)
      throw invalid_argument(fmt::format("rank {} of the job, a member of group '{}', is no node",
                                         one.node, about.name));
    out.push_back(found);
  }
  return out;
}

std::shared_ptr<group_core> group_service::make_locked(group_description about) {
  const bool alone = about.members.at(static_cast<std::size_t>(about.rank)).actor == 0;
  auto channel = endpoint_->open(about.name, nodes_of(about), about.rank, alone);
  const std::weak_ptr<network::endpoint> weak = endpoint_;
  const auto close = [weak, channel] {
    if (const auto there = weak.lock()) there->close(*channel);
  };
  std::shared_ptr<group_core> made;
  try {
    made = group_core::make(std::move(about), channel, node_.weak_from_this(), close);
  } catch (...) {
    close();
    throw;
  }
  std::erase_if(all_, [](const auto& one) { return one.expired(); });
  all_.push_back(made);
  return made;
}

std::uint64_t group_service::count(const std::string& stem, std::uint64_t actor) {
  const std::lock_guard lock(mutex_);
  return counts_[{stem, actor}]++;
}

// A node that has joined later may have the name of one that was there before.
std::string group_service::new_actors_name() {
  auto stem = fmt::format("actors of {}", node_.self().name);
  if (joined_ != 0) stem += fmt::format(" of epoch {}", joined_);
  return fmt::format("{}#{}", stem, count(stem));
}

const peer& home_of(node_core& here, const caf::strong_actor_ptr& actor) {
  if (const auto* const elsewhere = dynamic_cast<const actor_proxy*>(actor->get()))
    return elsewhere->home();
  return *here.peers().find(here.self().id);
}

}  // namespace troupe::groups
