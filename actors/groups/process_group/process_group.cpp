#include "troupe/actors/groups/process_group/process_group.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "troupe/actors/groups/backend/device_backends.hpp"
#include "troupe/actors/groups/process_group/group_ranks.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

struct process_group::state {
  std::shared_ptr<node_core> owned{};          ///< of init_process_group; goes last
  bool ends_node = false;                      ///< `owned` ends with this group
  std::shared_ptr<groups::group_core> core{};  ///< nullptr: this node is not a member
  groups::group_description about{};           ///< of such a group: what is known
};

namespace {

using groups::group_core;
using groups::group_description;
using groups::group_service;

using node_owner = std::shared_ptr<node_core>;

process_group not_a_member(group_description about, node_owner owned) {
  about.rank = -1;
  return process_group(std::make_shared<const process_group::state>(
      process_group::state{.owned = std::move(owned), .about = std::move(about)}));
}

// What `parent` and the options make of a new group of these ranks of it; the name is yet to come.
group_description describe_group(const group_description& parent, const std::vector<int>& ranks,
                                 const group_options& options) {
  group_description out;
  out.description = options.description;
  out.timeout = options.timeout.count() > 0 ? options.timeout : parent.timeout;
  out.backends =
      options.backend.empty() ? parent.backends : groups::parse_backends(options.backend);
  out.backend_options =
      options.backend_options.empty() ? parent.backend_options : options.backend_options;
  out.trace_directory =
      options.trace_directory.empty() ? parent.trace_directory : options.trace_directory;
  out.device = options.device.empty() ? parent.device : options.device;
  out.rank = -1;
  for (const auto rank : ranks) {
    if (rank == parent.rank) out.rank = static_cast<int>(out.members.size());
    out.members.push_back(parent.members.at(static_cast<std::size_t>(rank)));
  }
  return out;
}

// Makes the group of `about`, unless this node is not a member. `like`: what `parent` is of.
process_group make_group(group_core& parent, const process_group::state& like,
                         group_description about, const std::string& what,
                         const group_options& options, bool ends_node = false) {
  if (options.timeout.count() < 0)
    throw invalid_argument("the timeout of a group is negative: give 0 for the parent's");
  const auto node = parent.node();
  auto& service = group_service::of(*node);
  about.name = options.name;
  if (about.name.empty()) {
    // Equal on all members, who need not talk to anybody: they have made as many such groups.
    about.name = fmt::format("{}/{}", parent.about().name, what);
    if (!about.description.empty()) about.name += ":" + about.description;
    const auto& member = parent.about().members.at(static_cast<std::size_t>(parent.rank()));
    about.name += fmt::format("#{}", service.count(about.name, member.actor));
  }
  if (about.rank < 0) return not_a_member(std::move(about), like.owned);
  auto made = service.make(std::move(about));
  // The parent's may have been set on this rank alone: the members compare what they began with.
  if (options.timeout.count() == 0) made->set_timeout(parent.timeout());
  made->establish();
  return process_group(std::make_shared<const process_group::state>(
      process_group::state{.owned = like.owned, .ends_node = ends_node, .core = std::move(made)}));
}

}  // namespace

process_group::process_group(std::shared_ptr<groups::group_core> core,
                             std::shared_ptr<node_core> owned)
    : state_(std::make_shared<const state>(
          state{.owned = std::move(owned), .ends_node = true, .core = std::move(core)})) {}

std::shared_ptr<node_core> process_group::owned_node() const {
  return known().ends_node ? known().owned : nullptr;
}

const process_group::state& process_group::known() const {
  if (!state_) throw invalid_argument("Invalid process group specified: this handle has no group");
  return *state_;
}

group_core& process_group::core() const {
  const auto& it = known();
  if (!it.core)
    throw invalid_argument(
        fmt::format("this node does not belong to the given group '{}'", it.about.name));
  return *it.core;
}

group_core* process_group::member(const char* operation) const {
  const auto& it = known();
  if (it.core) [[likely]]
    return it.core.get();
  log().warn("Running {} on a node which does not belong to the given group '{}': it does nothing",
             operation, it.about.name);
  return nullptr;
}

namespace {

const group_description& about_of(const process_group::state& it) {
  return it.core ? it.core->about() : it.about;
}

}  // namespace

bool process_group::is_same(const process_group& other) const noexcept {
  return state_ && other.state_ && state_->core && state_->core == other.state_->core;
}

bool process_group::is_member() const { return known().core != nullptr; }
int process_group::rank() const { return about_of(known()).rank; }
int process_group::size() const { return known().core ? known().core->size() : -1; }
const std::string& process_group::name() const { return about_of(known()).name; }
const std::string& process_group::description() const { return about_of(known()).description; }

std::vector<std::uint32_t> process_group::ranks() const {
  std::vector<std::uint32_t> out;
  for (const auto& one : about_of(known()).members) out.push_back(one.node);
  return out;
}

std::uint32_t process_group::global_rank(int group_rank) const {
  const auto& members = about_of(known()).members;
  if (group_rank < 0 || static_cast<std::size_t>(group_rank) >= members.size())
    throw invalid_argument(
        fmt::format("Group rank {} is not part of group {}", group_rank, name()));
  return members[static_cast<std::size_t>(group_rank)].node;
}

int process_group::group_rank(std::uint32_t global_rank) const {
  const auto& members = about_of(known()).members;
  const auto is_there = [&](const auto& one) { return one.node == global_rank; };
  const auto at = std::ranges::find_if(members, is_there);
  if (at == members.end())
    throw invalid_argument(
        fmt::format("Global rank {} is not part of group {}", global_rank, name()));
  if (std::any_of(at + 1, members.end(), is_there))
    throw invalid_argument(
        fmt::format("Global rank {} has several ranks in group {}, whose members are actors",
                    global_rank, name()));
  return static_cast<int>(at - members.begin());
}

std::string process_group::backend() const { return groups::to_string(about_of(known()).backends); }

std::chrono::milliseconds process_group::timeout() const { return core().timeout(); }

void process_group::set_timeout(std::chrono::milliseconds limit) const {
  if (limit.count() <= 0)
    throw invalid_argument("the timeout of a group has to be positive, in milliseconds");
  core().set_timeout(limit);
}

process_group process_group::new_group(const std::vector<int>& ranks,
                                       const group_options& options) const {
  auto& parent = core();
  groups::check_ranks(ranks, parent.size());
  return make_group(parent, known(), describe_group(parent.about(), ranks, options),
                    groups::joined(ranks), options);
}

std::pair<process_group, std::vector<process_group>> process_group::new_subgroups(
    int group_size, const group_options& options) const {
  return new_subgroups_by_enumeration(groups::ranks_in_rows(core().size(), group_size), options);
}

std::pair<process_group, std::vector<process_group>> process_group::new_subgroups_by_enumeration(
    const std::vector<std::vector<int>>& ranks_per_subgroup_list,
    const group_options& options) const {
  groups::check_apart(ranks_per_subgroup_list, core().size());
  std::pair<process_group, std::vector<process_group>> out;
  for (const auto& ranks : ranks_per_subgroup_list) {
    auto how = options;
    if (!how.name.empty()) how.name += fmt::format("/{}", out.second.size());
    out.second.push_back(new_group(ranks, how));
    if (out.second.back().is_member()) out.first = out.second.back();
  }
  if (out.first == process_group()) {
    group_description none;
    none.name = "none of the subgroups";
    out.first = not_a_member(std::move(none), known().owned);
  }
  return out;
}

process_group process_group::split(int color, int key, const group_options& options) const {
  auto& parent = core();
  groups::prepared_call call(groups::operation_kind::all_gather_into_tensor);
  // Other backends, or options of theirs, need connections of their own.
  const bool alike = options.backend.empty() && options.backend_options.empty();
  const auto mine = at::empty({3}, at::kLong);
  mine.mutable_data_ptr<std::int64_t>()[0] = color;
  mine.mutable_data_ptr<std::int64_t>()[1] = key;
  mine.mutable_data_ptr<std::int64_t>()[2] = alike ? parent.connections() : 0;
  const auto all = at::empty({parent.size(), 3}, at::kLong);
  call.input(mine);
  call.output(all);
  parent.run(call);
  const auto* const wishes = all.const_data_ptr<std::int64_t>();
  std::vector<int> ranks;
  auto connections = mine.const_data_ptr<std::int64_t>()[2];
  for (int rank = 0; rank < parent.size(); ++rank) {
    if (wishes[3 * rank] == color) ranks.push_back(rank);
    connections = std::min(connections, wishes[3 * rank + 2]);
  }
  std::ranges::stable_sort(ranks, {}, [&](int rank) { return wishes[3 * rank + 1]; });
  if (color < 0) ranks.clear();
  auto how = options;
  if (!how.name.empty()) how.name += fmt::format("/{}", color);
  // Ranks without a new group take part in this too.
  auto inherited = connections > 0
                       ? parent.split_connections(static_cast<int>(connections), color, key)
                       : nullptr;
  auto about = describe_group(parent.about(), ranks, how);
  if (connections > 0) about.device.clear();  // it is there
  auto out = make_group(parent, known(), std::move(about),
                        fmt::format("split {}: {}", color, groups::joined(ranks)), how);
  if (inherited) out.core().adopt(std::move(inherited));
  return out;
}

namespace {

// The smallest of the members' numbers, of each.
std::array<std::int64_t, 2> least_of(group_core& group, std::array<std::int64_t, 2> mine) {
  groups::prepared_call call(groups::operation_kind::all_reduce);
  const auto numbers = at::empty({2}, at::kLong);
  auto* const values = numbers.mutable_data_ptr<std::int64_t>();
  std::ranges::copy(mine, values);
  call.what().reduction = reduce_op::min;
  call.output(numbers, groups::prepared_call::use::updated);
  group.run(call);
  return {values[0], values[1]};
}

}  // namespace

process_group process_group::shrink(const std::vector<int>& ranks_to_exclude, bool abort_pending,
                                    const group_options& options) const {
  auto& parent = core();
  groups::check_excluded(ranks_to_exclude, parent.rank(), parent.size());
  if (abort_pending)
    parent.fail(std::make_exception_ptr(group_failed(
        fmt::format("rank {} shrinks group '{}'", parent.rank(), parent.about().name))));
  parent.wait_for_pending();
  std::vector<int> ranks;
  for (int rank = 0; rank < parent.size(); ++rank)
    if (std::ranges::find(ranks_to_exclude, rank) == ranks_to_exclude.end()) ranks.push_back(rank);
  auto about = describe_group(parent.about(), ranks, options);
  about.device.clear();  // perhaps it is there already: see below
  auto out = make_group(parent, known(), std::move(about), "shrunk to " + groups::joined(ranks),
                        options, known().ends_node);
  auto& made = out.core();
  // Connections are used where all that stay have them: of a group that has failed nothing is left.
  const bool alike = options.backend.empty() && options.backend_options.empty();
  const auto [completed, connections] = least_of(
      made, {static_cast<std::int64_t>(parent.last_completed()), alike ? parent.connections() : 0});
  made.set_completed_before(static_cast<std::uint64_t>(completed));
  if (connections > 0)
    made.adopt(parent.shrink_connections(static_cast<int>(connections), ranks_to_exclude));
  const auto node = parent.node();
  auto& service = group_service::of(*node);
  if (service.world().get() == &parent)
    service.replace_world(known().core ? out.state_->core : nullptr);
  parent.destroy();
  return out;
}

std::uint64_t process_group::completed_before() const { return core().completed_before(); }

void process_group::abort() const {
  auto& it = core();
  it.fail(std::make_exception_ptr(
      group_failed(fmt::format("group '{}' was aborted on rank {}", it.about().name, it.rank()))));
}

void process_group::destroy() const { core().destroy(); }
void process_group::wait_for_pending() const { core().wait_for_pending(); }

void process_group::on_completion(std::function<void(const completed_work&)> hook) const {
  core().add_hook(std::move(hook));
}

std::uint64_t process_group::sequence_number() const { return core().last_sequence(); }

std::string process_group::trace() const {
  return groups::trace_json(core().trace_about(), core().records());
}

std::string process_group::write_trace(const std::string& directory) const {
  return groups::write_trace_file(directory, core().trace_about(), core().records());
}

process_group node::world() const { return process_group(group_service::of(core()).world()); }

}  // namespace troupe
