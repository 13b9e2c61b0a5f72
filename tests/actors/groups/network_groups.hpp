// Groups between hosts, by rules.

#pragma once

#include <chrono>
#include <string>

#include "troupe/actors/groups/process_group/process_group.hpp"

namespace troupe::test {

inline group_options ruled(const std::string& backend, const std::string& rules) {
  return {.timeout = std::chrono::seconds(60),
          .backend = "cpu:" + backend,
          .backend_options = {{"collectives", rules}}};
}

}  // namespace troupe::test
