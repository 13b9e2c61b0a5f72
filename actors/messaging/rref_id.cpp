#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe {

std::string to_string(const rref_id& id) {
  return "rref_id(created_on=" + std::to_string(id.creator) +
         ", owner=" + std::to_string(id.owner) + ", local_id=" + std::to_string(id.number) + ')';
}

}  // namespace troupe
