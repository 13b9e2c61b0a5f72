#include "troupe/actors/rref/owner_table.hpp"

namespace troupe::detail {

namespace {

// A reference may be ahead of the creations that have arrived by this many numbers.
constexpr std::uint64_t most_ahead = 1 << 20;

[[noreturn]] void throw_gone(const rref_id& id, const std::string& why) {
  throw rref_gone(to_string(id) + ' ' + why);
}

}  // namespace

// False: it has arrived before.
bool owner_table::arrivals::add(std::uint64_t number) {
  if (has(number)) return false;
  if (number != below + 1) {
    above.insert(number);
    return true;
  }
  ++below;
  while (!above.empty() && *above.begin() == below + 1) {
    above.erase(above.begin());
    ++below;
  }
  return true;
}

// The record of a value that exists or is to come, made if need be; nullptr: it is gone, or will
// never be created.
owner_table::record* owner_table::look(const rref_id& id) {
  if (const auto place = records_.find(id); place != records_.end()) return &place->second;
  const auto* creator = peers_.find(id.creator, id.creator_incarnation);
  if (closed_ || !creator || !creator->live()) return nullptr;
  const auto& arrived = arrivals_[creator];
  // Its window keeps a creator from being far ahead: a larger number is damaged or made up, and
  // must not take memory here.
  if (arrived.has(id.number) || id.number - arrived.below > most_ahead) return nullptr;
  return &records_[id];
}

owner_table::dropped owner_table::take(std::unordered_map<rref_id, record>::iterator place) {
  dropped out{std::move(place->second.value), place->second.type.runs_user_code,
              std::move(place->second.actor)};
  records_.erase(place);
  return out;
}

void owner_table::reserve(const rref_id& id, const peer& creator) {
  dropped guessed;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw not_initialized("the node has been shut down");
    arrivals_[&creator].add(id.number);
    if (const auto place = records_.find(id); place != records_.end()) guessed = take(place);
  }
  // No reference to it can have existed.
  if (guessed.value)
    guessed.value->set_exception(
        std::make_exception_ptr(rref_gone(to_string(id) + " was asked for before it was made")));
}

void owner_table::own(const rref_id& id, value_cell value, const value_type& type,
                      const peer& holder, std::uint64_t use) {
  const std::lock_guard lock(mutex_);
  if (closed_) throw not_initialized("the node has been shut down");
  auto& entry = records_[id];
  entry.value = std::move(value);
  entry.type = type;
  entry.created = true;
  entry.holders.insert({&holder, use});
}

value_cell owner_table::create(const rref_id& id, const value_type& type, const peer& creator) {
  value_cell mistaken;
  value_cell value;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw not_initialized("the node has been shut down");
    if (!creator.live()) throw_gone(id, "is made by a node that is lost");
    if (!arrivals_[&creator].add(id.number)) throw_gone(id, "has been given up by its creator");
    auto& entry = records_[id];
    if (entry.value && entry.type.hash != type.hash) mistaken = std::move(entry.value);
    if (!entry.value) entry.value = type.make(engine_);
    entry.type = type;
    entry.created = true;
    entry.holders.insert({&creator, 0});
    value = entry.value;
  }
  // A reference named it with another type before.
  if (mistaken)
    mistaken->set_exception(std::make_exception_ptr(
        invalid_argument(to_string(id) + " is a " + std::string(type.name))));
  return value;
}

owner_table::presence owner_table::hold(const rref_id& id, const peer& holder, std::uint64_t use) {
  const std::lock_guard lock(mutex_);
  auto* entry = look(id);
  if (!entry) return presence::gone;
  entry->holders.insert({&holder, use});
  return entry->settled() ? presence::here : presence::to_come;
}

value_cell owner_table::find(const rref_id& id, const value_type& type) {
  const std::lock_guard lock(mutex_);
  auto* entry = look(id);
  if (!entry && closed_) throw not_initialized("the node has been shut down");
  if (!entry) throw_gone(id, "exists no more, or has never been created");
  if (entry->failure) std::rethrow_exception(entry->failure);
  if (!entry->value) {
    entry->value = type.make(engine_);
    entry->type = type;
  } else if (entry->type.hash != type.hash) {
    throw invalid_argument(to_string(id) + " is a " + std::string(entry->type.name) + ", not a " +
                           std::string(type.name));
  }
  return entry->value;
}

owner_table::dropped owner_table::drop(const rref_id& id, const peer& holder,
                                       std::uint64_t use) noexcept {
  const std::lock_guard lock(mutex_);
  const auto place = records_.find(id);
  if (place == records_.end()) return {};
  place->second.holders.erase({&holder, use});
  auto& entry = place->second;
  // The record of a value to come goes too, unless its value is waited for: the creation makes
  // another one.
  if (!entry.holders.empty() || (!entry.settled() && entry.value)) return {};
  return take(place);
}

// The failure stays for as long as there are references. Returns the state that waits for the
// value, and the actor if it ends.
owner_table::dropped owner_table::give_up(std::unordered_map<rref_id, record>::iterator place,
                                          const std::exception_ptr& why) {
  place->second.failure = why;
  if (place->second.holders.empty()) return take(place);
  return {std::move(place->second.value)};
}

void owner_table::abandon(const rref_id& id, const peer& creator, const std::exception_ptr& why) {
  dropped given_up;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !arrivals_[&creator].add(id.number)) return;
    // The creator still has its reference, and may be about to use it.
    const auto place = records_.try_emplace(id).first;
    place->second.holders.insert({&creator, 0});
    given_up = give_up(place, why);
  }
  if (given_up.value) given_up.value->set_exception(why);
}

std::vector<owner_table::dropped> owner_table::evict(const peer& whom) {
  std::vector<dropped> out;
  std::vector<std::pair<dropped, std::exception_ptr>> never;
  {
    const std::lock_guard lock(mutex_);
    arrivals_.erase(&whom);
    for (auto next = records_.begin(); next != records_.end();) {
      const auto place = next++;
      const auto& id = place->first;
      auto& entry = place->second;
      std::erase_if(entry.holders, [&](const holding& one) { return one.who == &whom; });
      if (!entry.settled() && id.creator == whom.rank() &&
          id.creator_incarnation == whom.incarnation) {
        auto why = whom.loss();
        why.text =
            to_string(id) + " was lost with the node that should have created it: " + why.text;
        const auto failure = to_exception(std::move(why));
        never.emplace_back(give_up(place, failure), failure);
      } else if (entry.holders.empty() && (entry.settled() || !entry.value)) {
        out.push_back(take(place));
      }
    }
  }
  for (const auto& [one, why] : never)
    if (one.value) one.value->set_exception(why);
  return out;
}

std::vector<owner_table::dropped> owner_table::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  std::vector<dropped> out;
  while (!records_.empty()) out.push_back(take(records_.begin()));
  arrivals_.clear();
  return out;
}

caf::strong_actor_ptr owner_table::actor(const rref_id& id,
                                         const std::function<caf::strong_actor_ptr()>& make) {
  {
    const std::lock_guard lock(mutex_);
    const auto place = records_.find(id);
    if (place == records_.end()) throw_gone(id, "exists no more");
    if (place->second.actor) return place->second.actor;
  }
  auto made = make();
  const std::lock_guard lock(mutex_);
  const auto place = records_.find(id);
  if (place == records_.end()) return made;
  if (!place->second.actor) place->second.actor = std::move(made);
  return place->second.actor;
}

std::size_t owner_table::size() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace troupe::detail
