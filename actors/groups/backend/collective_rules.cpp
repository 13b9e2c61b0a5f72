#include "troupe/actors/groups/backend/collective_rules.hpp"

#include <cstdlib>

namespace troupe::groups {

std::string rules_of(const backend_request& request) {
  std::string rules;
  if (const char* set = std::getenv("TROUPE_COLLECTIVES")) rules = set;
  const auto option = request.options.find("collectives");
  if (option != request.options.end())
    rules += (rules.empty() || option->second.empty() ? "" : ",") + option->second;
  return rules;
}

}  // namespace troupe::groups
