#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/process_group/group_options.hpp"
#include "troupe/actors/groups/work/completed_work.hpp"

namespace troupe {

class node_core;

namespace groups {
class group_core;
}

/// Nodes that run collectives together, or actors (actor_group): one rank of such a group. Copies
/// are the same group. When the last copy goes, this rank leaves the group, as by `destroy`. A node
/// that is not a member has a handle too, on which collectives do nothing but log a warning. Ranks
/// are the group's, from 0 on, unless it says otherwise. Thread-safe.
class process_group {
public:
  /// No group; everything but comparing and assigning throws invalid_argument.
  process_group() = default;

  /// Is this node a member?
  bool is_member() const;

  /// This node's rank, and how many members there are. -1 on a node that is not one.
  int rank() const;
  int size() const;

  const std::string& name() const;
  const std::string& description() const;

  /// The members' ranks in the job, by rank; of actors, their nodes'.
  std::vector<std::uint32_t> ranks() const;
  /// Throw invalid_argument: "Group rank 7 is not part of group NAME", "Global rank ...".
  std::uint32_t global_rank(int group_rank) const;
  int group_rank(std::uint32_t global_rank) const;

  /// "cpu:troupe", as the group was made.
  std::string backend() const;

  /// How long an operation may take that begins from now on. On this rank.
  std::chrono::milliseconds timeout() const;
  void set_timeout(std::chrono::milliseconds limit) const;

  /// A group of these members of this one, in the order given. All members of this group call it,
  /// or, with use_local_synchronization, at least those of the new one. The members of the new
  /// group wait for each other, for at most its timeout; threads may make groups at the same time,
  /// and those of the same ranks and description may be any of them, unless they have names. Throws
  /// invalid_argument for ranks that are none ("The new group's rank should be within the
  /// world_size set by init_process_group") or twice there, collective_timeout,
  /// collective_mismatch.
  process_group new_group(const std::vector<int>& ranks, const group_options& options = {}) const;

  /// One group for each colour, whose members are ordered by `key`, then by their rank here. A
  /// negative colour is in none. All members call it.
  process_group split(int color, int key = 0, const group_options& options = {}) const;

  /// This node's group, and all of them. Groups of `group_size` ranks that follow one another.
  /// Throws invalid_argument: "must not exceed the world size", "must be divisible by".
  std::pair<process_group, std::vector<process_group>> new_subgroups(
      int group_size, const group_options& options = {}) const;
  /// Groups of ranks of this one. Throws invalid_argument: "Rank 1 has appeared in both subgroup".
  std::pair<process_group, std::vector<process_group>> new_subgroups_by_enumeration(
      const std::vector<std::vector<int>>& ranks_per_subgroup_list,
      const group_options& options = {}) const;

  /// Survivors go on: a group of all members but these, with new ranks in the old order. Those that
  /// stay call it, on a group that has failed or on one that works; this one is destroyed. If it
  /// was the world of the node, the new one is from now on; other groups stay. Waits for what is
  /// under way, unless `abort_pending`. Throws invalid_argument for ranks that cannot be excluded.
  process_group shrink(const std::vector<int>& ranks_to_exclude, bool abort_pending = false,
                       const group_options& options = {}) const;

  /// Of a group that another one was shrunk to: the sequence number of the last collective of that
  /// one which all members of this one have completed. 0: none, or it is no such group.
  std::uint64_t completed_before() const;

  /// Ends all operations, on all ranks, with group_failed. The group takes no more.
  void abort() const;

  /// This rank leaves the group: its operations fail, and so do those of others that need it. Later
  /// use throws group_failed. Does not wait for the others.
  void destroy() const;

  /// Waits until all collectives that were started on this rank have ended.
  void wait_for_pending() const;

  /// Calls `hook` once for each operation of this rank that ends, on the thread that ran it. It is
  /// brief, and neither uses nor drops the group.
  void on_completion(std::function<void(const completed_work&)> hook) const;

  /// The number of the last collective that was asked for on this rank: all ranks count alike.
  std::uint64_t sequence_number() const;

  /// The last 1,000 operations of this rank, as JSON (docs/collectives.md). And into
  /// DIRECTORY/GROUP_rankN.json; returns the file's name. Throws std::system_error.
  std::string trace() const;
  std::string write_trace(const std::string& directory) const;

  friend bool operator==(const process_group& a, const process_group& b) noexcept {
    return a.state_ == b.state_ || a.is_same(b);
  }

  /// For Troupe's own use.
  struct state;
  explicit process_group(std::shared_ptr<const state> of) : state_(std::move(of)) {}
  /// `owned`: lives as long as the handles, also those of groups made of this one.
  /// `destroy_process_group` of this one shuts it down.
  explicit process_group(std::shared_ptr<groups::group_core> core,
                         std::shared_ptr<node_core> owned = nullptr);
  /// The node that ends with this group; nullptr: none does.
  std::shared_ptr<node_core> owned_node() const;
  /// The member's end. nullptr on a node that is not a member, with a warning that names
  /// `operation`. Throws invalid_argument if this is no group.
  groups::group_core* member(const char* operation) const;

private:
  bool is_same(const process_group& other) const noexcept;
  const state& known() const;
  groups::group_core& core() const;

  std::shared_ptr<const state> state_;
};

}  // namespace troupe
