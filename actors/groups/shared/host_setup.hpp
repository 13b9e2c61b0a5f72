#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/transport/memory/arena_memory.hpp"
#include "troupe/transport/regions/mapped_region.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::groups {

/// What the ranks of a group on one host have mapped of each other: a control segment, which rank 0
/// makes, and the memory of every rank's tensors, its arena. Descriptors are handed out by servers
/// that live while the group is made, to whoever proves that it has a secret of the group's own,
/// which travels in `request.exchange`.
class host_setup {
public:
  /// All ranks call it at the same time. Null, and the reason, on all of them alike where they
  /// cannot share memory: they are on several hosts, too many, or memory is refused to one.
  /// Throws what the exchange throws, and invalid_argument for rules of ways that are none.
  static std::unique_ptr<host_setup> make(const backend_request& request, std::string& why_not);

  host_setup(const host_setup&) = delete;
  host_setup& operator=(const host_setup&) = delete;

  /// For this rank's shared_group, which this outlives.
  shared_setup setup() const { return setup_; }

  /// The ranks whose processes have ended, as bits. Any thread.
  std::uint64_t dead() const noexcept;

private:
  struct card;
  struct offer;
  struct mapped_ranks;

  host_setup() = default;

  void watch_processes(const std::vector<card>& cards, int rank);

  shared_setup setup_;
  std::unique_ptr<transport::arena_memory> control_;  // rank 0
  std::vector<std::shared_ptr<const transport::mapped_region>> mapped_;
  std::vector<transport::unique_fd> processes_;  // by rank; pidfds
};

}  // namespace troupe::groups
