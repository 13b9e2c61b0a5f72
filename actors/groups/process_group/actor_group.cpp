#include "troupe/actors/groups/process_group/actor_group.hpp"

#include <fmt/format.h>
#include <caf/abstract_actor.hpp>

#include <set>
#include <utility>

#include "troupe/actors/groups/backend/device_backends.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe {

using groups::group_description;
using groups::group_service;

void actor_group::begin(const node& on, const group_options& options) {
  if (members_.empty())
    throw invalid_argument("a group of actors cannot be empty: name its members");
  if (options.timeout.count() < 0)
    throw invalid_argument("the timeout of a group is negative: give 0 for 30 minutes");
  auto& core = on.core();
  std::set<std::pair<caf::node_id, caf::actor_id>> seen;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const auto& one = members_[rank];
    if (!one)
      throw invalid_argument(
          fmt::format("member {} of a group of actors is a handle that names no actor", rank));
    if (one->home_system != &core.system())
      throw invalid_argument(
          fmt::format("member {} of a group of actors is a handle of another node of this process: "
                      "handles travel in messages only",
                      rank));
    if (!seen.emplace(one->node(), one->id()).second)
      throw invalid_argument(fmt::format(
          "the members of a group of actors cannot be the same: member {} was there before", rank));
  }
  auto& service = group_service::of(core);
  name_ = options.name.empty() ? service.new_actors_name() : options.name;
  description_ = options.description;
  timeout_ = options.timeout.count() > 0 ? options.timeout : default_group_timeout;
  backends_ = groups::parse_backends(options.backend.empty() ? "troupe" : options.backend);
  backend_options_ = options.backend_options;
  trace_directory_ = options.trace_directory;
}

process_group actor_group::join(const caf::abstract_actor* self) const {
  if (members_.empty())
    throw invalid_argument("this actor_group is no group: make one of the actors' handles");
  if (!self) throw invalid_argument("an actor joins a group by its own pointer, which is null");
  auto& core = this_node().core();
  group_description about;
  about.name = name_;
  about.description = description_;
  about.rank = -1;
  about.timeout = timeout_;
  about.backends = backends_;
  about.backend_options = backend_options_;
  about.trace_directory = trace_directory_;
  for (const auto& one : members_) {
    if (!one) throw invalid_argument(fmt::format("a member of group '{}' is no actor", name_));
    if (one->get() == self) about.rank = static_cast<int>(about.members.size());
    const auto& home = groups::home_of(core, one);
    about.members.push_back({home.rank(), home.info.name, one->id()});
  }
  if (about.rank < 0)
    throw invalid_argument(fmt::format("actor {} on {} is no member of group '{}'", self->id(),
                                       core.self().name, name_));
  return process_group(group_service::of(core).make(std::move(about), members_));
}

}  // namespace troupe
