#include "troupe/actors/groups/process_group/group_ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

std::string joined(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ","));
}

void check_ranks(const std::vector<int>& ranks, int size) {
  if (ranks.empty()) throw invalid_argument("the new group cannot be empty: name its ranks");
  if (ranks.size() > static_cast<std::size_t>(size))
    throw invalid_argument(
        "the new group's world size should be less or equal to the world size set by "
        "init_process_group");
  std::set<int> seen;
  for (const auto rank : ranks) {
    if (rank < 0 || rank >= size)
      throw invalid_argument(
          "The new group's rank should be within the world_size set by init_process_group");
    if (!seen.insert(rank).second)
      throw invalid_argument(fmt::format(
          "the new group cannot have duplicate ranks: {} is twice in [{}]", rank, joined(ranks)));
  }
}

void check_apart(const std::vector<std::vector<int>>& subgroups, int size) {
  if (subgroups.empty())
    throw invalid_argument("The arg 'ranks_per_subgroup_list' cannot be empty");
  // All are checked before the first one is made.
  std::map<int, const std::vector<int>*> found;
  for (const auto& ranks : subgroups) {
    check_ranks(ranks, size);
    for (const auto rank : ranks)
      if (!found.emplace(rank, &ranks).second)
        throw invalid_argument(fmt::format("Rank {} has appeared in both subgroup [{}] and [{}]",
                                           rank, fmt::join(*found[rank], ", "),
                                           fmt::join(ranks, ", ")));
  }
}

void check_excluded(const std::vector<int>& excluded, int rank, int size) {
  if (excluded.empty())
    throw invalid_argument(
        "ranks_to_exclude cannot be empty. To shrink a group, you must specify at least one rank "
        "to exclude. Example: [failed_rank_id]");
  if (size <= 1)
    throw invalid_argument(fmt::format(
        "Cannot shrink a process group with size {}. Group must have at least 2 ranks to "
        "support shrinking.",
        size));
  std::set<int> seen;
  for (std::size_t i = 0; i < excluded.size(); ++i) {
    if (excluded[i] < 0 || excluded[i] >= size)
      throw invalid_argument(
          fmt::format("Rank {} at index {} is out of bounds for group size {}. Valid ranks are in "
                      "range [0, {}].",
                      excluded[i], i, size, size - 1));
    if (!seen.insert(excluded[i]).second)
      throw invalid_argument(
          fmt::format("Duplicate rank {} found in ranks_to_exclude at index {}. Each rank can only "
                      "be excluded once.",
                      excluded[i], i));
  }
  if (static_cast<int>(seen.size()) >= size)
    throw invalid_argument(fmt::format(
        "Cannot exclude all {} ranks from process group. At least one rank must remain. "
        "Excluding {} ranks.",
        size, seen.size()));
  if (seen.contains(rank))
    throw invalid_argument(fmt::format(
        "Current rank {} is in the exclusion list and should not call shrink_group(). "
        "Only non-excluded ranks should participate in the shrinking operation. Excluded "
        "ranks should terminate their processes instead.",
        rank));
}

std::vector<std::vector<int>> ranks_in_rows(int size, int group_size) {
  if (group_size <= 0)
    throw invalid_argument(fmt::format("The arg 'group_size' ({}) must be positive", group_size));
  if (size < group_size)
    throw invalid_argument(fmt::format(
        "The arg 'group_size' ({}) must not exceed the world size ({})", group_size, size));
  if (size % group_size != 0)
    throw invalid_argument(
        fmt::format("The world size ({}) must be divisible by 'group_size={}'", size, group_size));
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < size; ++rank) {
    if (rank % group_size == 0) all.emplace_back();
    all.back().push_back(rank);
  }
  return all;
}

}  // namespace troupe::groups
