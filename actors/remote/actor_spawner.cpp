#include "troupe/actors/remote/actor_spawner.hpp"

#include <caf/actor_registry.hpp>
#include <caf/exit_reason.hpp>
#include <caf/system_messages.hpp>

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

actor_spawner::actor_spawner(node_lifecycle& life, engine& driver) : life_(life), engine_(driver) {}

actor_spawner::~actor_spawner() = default;

void actor_spawner::open(const std::shared_ptr<remote_actors>& actors, const node_identity& self) {
  host_ = std::make_unique<actor_system_host>(actors, self);
  timed_ = host_.get();
}

caf::actor_system& actor_spawner::system() noexcept { return host_->system(); }

clock::time_point actor_spawner::run_timers() {
  auto* const host = timed_.load();
  return host ? host->clock().run_due() : never;
}

// On the thread that has made the actor.
void actor_spawner::adopt(const caf::strong_actor_ptr& actor) {
  actor_system_host::let_go_of_logger();
  const std::lock_guard lock(mutex_);
  // Forget those that are gone, now and then.
  if (spawned_.size() == spawned_.capacity())
    std::erase_if(spawned_, [](const caf::weak_actor_ptr& a) {
      return !caf::actor_cast<caf::strong_actor_ptr>(a);
    });
  spawned_.push_back(caf::actor_cast<caf::weak_actor_ptr>(actor));
}

void actor_spawner::end_actors(std::chrono::nanoseconds limit, std::string_view node) {
  std::vector<caf::weak_actor_ptr> actors;
  {
    const std::lock_guard lock(mutex_);
    actors.swap(spawned_);
  }
  for (auto& weak : actors)
    if (auto actor = caf::actor_cast<caf::strong_actor_ptr>(weak))
      actor->enqueue(nullptr, caf::make_message_id(),
                     caf::make_message(caf::exit_msg{actor->address(), caf::exit_reason::kill}),
                     nullptr);
  // Those that the program made by CAF's own means are given a moment.
  auto& registry = system().registry();
  const auto until = clock::now() + limit;
  while (registry.running() > 0 && clock::now() < until) {
    completion nothing;
    engine_.wait(nothing, clock::now() + std::chrono::milliseconds(1));
  }
  if (auto left = registry.running(); left > 0) {
    log().warn("{}: {} actors did not end at the shutdown", node, left);
    system().await_actors_before_shutdown(false);
  }
}

void actor_spawner::close() {
  timed_ = nullptr;  // a thread that has read it before goes on until the engine has stopped
  host_.reset();
}

}  // namespace troupe
