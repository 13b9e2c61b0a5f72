#include "troupe/actors/remote/export_table.hpp"

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <vector>

namespace troupe {

void export_table::know(const caf::strong_actor_ptr& actor) {
  {
    std::lock_guard guard(mutex_);
    auto [place, added] = entries_.try_emplace(actor->id());
    if (!added) return;
    place->second.actor = caf::actor_cast<caf::weak_actor_ptr>(actor);
  }
  // Outside of the lock: an actor that has ended calls back at once.
  actor->get()->attach_functor([table = weak_from_this(), id = actor->id()](const caf::error&) {
    if (auto self = table.lock()) self->forget(id);
  });
}

void export_table::grant(const caf::strong_actor_ptr& actor, const peer& holder) {
  know(actor);
  std::lock_guard guard(mutex_);
  auto place = entries_.find(actor->id());
  if (place == entries_.end()) return;  // it has ended meanwhile
  place->second.held = actor;
  ++place->second.grants[&holder];
}

void export_table::release(caf::actor_id id, const peer& holder, std::uint32_t count) {
  caf::strong_actor_ptr last;  // dropped outside of the lock: its end calls `forget`
  std::lock_guard guard(mutex_);
  auto place = entries_.find(id);
  if (place == entries_.end()) return;
  auto& grants = place->second.grants;
  auto share = grants.find(&holder);
  if (share == grants.end()) return;
  if (share->second > count)
    share->second -= count;
  else
    grants.erase(share);
  if (grants.empty()) last.swap(place->second.held);
}

void export_table::release_all(const peer& holder) {
  std::vector<caf::strong_actor_ptr> last;
  std::lock_guard guard(mutex_);
  for (auto& [id, entry] : entries_)
    if (entry.grants.erase(&holder) > 0 && entry.grants.empty())
      last.push_back(std::move(entry.held));
}

caf::strong_actor_ptr export_table::find(caf::actor_id id) const {
  std::lock_guard guard(mutex_);
  auto place = entries_.find(id);
  if (place == entries_.end()) return nullptr;
  if (place->second.held) return place->second.held;
  return caf::actor_cast<caf::strong_actor_ptr>(place->second.actor);
}

void export_table::forget(caf::actor_id id) {
  entry gone;
  std::lock_guard guard(mutex_);
  auto place = entries_.find(id);
  if (place == entries_.end()) return;
  gone = std::move(place->second);
  entries_.erase(place);
}

void export_table::clear() {
  std::unordered_map<caf::actor_id, entry> gone;
  std::lock_guard guard(mutex_);
  gone.swap(entries_);
}

std::size_t export_table::held() const {
  std::lock_guard guard(mutex_);
  std::size_t count = 0;
  for (const auto& [id, entry] : entries_) count += entry.held != nullptr;
  return count;
}

}  // namespace troupe
