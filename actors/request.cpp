#include "actors/request.hpp"

#include "actors/caf_host.hpp"

namespace troupe::detail {

std::shared_ptr<engine> driver_of(const caf::strong_actor_ptr& receiver) {
  return caf_host::driver_of(*receiver->home_system);
}

}  // namespace troupe::detail
