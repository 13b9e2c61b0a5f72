#include "actors/request.hpp"

#include "actors/caf_host.hpp"

namespace troupe::detail {

std::shared_ptr<engine> driver_of(const caf::strong_actor_ptr& receiver) {
  return caf_host::driver_of(receiver->home_system);
}

remote_actor* alive_elsewhere(const caf::strong_actor_ptr& receiver) {
  auto* remote = dynamic_cast<remote_actor*>(receiver->get());
  return remote && !remote->ended() ? remote : nullptr;
}

}  // namespace troupe::detail
