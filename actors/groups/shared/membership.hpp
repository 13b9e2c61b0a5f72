#pragma once

#include <memory>
#include <utility>

#include "troupe/actors/groups/shared/host_setup.hpp"
#include "troupe/actors/groups/shared/shared_group.hpp"

namespace troupe::groups {

/// What a rank has of its group. Memory in quarantine, and memory that is lent, needs it when the
/// backend is gone.
struct membership {
  explicit membership(std::unique_ptr<host_setup> on) : host(std::move(on)), group(host->setup()) {}

  const std::unique_ptr<host_setup> host;
  shared_group group;

  bool all_left() const noexcept { return group.all_left(host->dead()); }
};

}  // namespace troupe::groups
