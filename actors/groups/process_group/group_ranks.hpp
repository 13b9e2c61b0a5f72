#pragma once

#include <string>
#include <vector>

// Lists of ranks, of which groups are made. `size` is that of the group whose ranks they are.
namespace troupe::groups {

/// "0,2,3".
std::string joined(const std::vector<int>& ranks);

/// Throws invalid_argument for ranks that cannot be a group: none, others than the group's, twice.
void check_ranks(const std::vector<int>& ranks, int size);

/// The same for several groups, of which no two have a rank in common.
void check_apart(const std::vector<std::vector<int>>& subgroups, int size);

/// Throws invalid_argument for ranks without which a group cannot go on; `rank` asks for it.
void check_excluded(const std::vector<int>& excluded, int rank, int size);

/// Groups of `group_size` ranks that follow one another. Throws invalid_argument if `size` is no
/// multiple of that.
std::vector<std::vector<int>> ranks_in_rows(int size, int group_size);

}  // namespace troupe::groups
