#include "actors/rref/rref_table.hpp"

#include "actors/control_channel.hpp"
#include "actors/job.hpp"
#include "actors/node_core.hpp"
#include "actors/remoting_internal.hpp"
#include "messages/error_codec.hpp"

namespace troupe::detail {

namespace {

// How a reference is written.
enum class reference_form : std::uint8_t { null, granted, passed_on };

// Uses that the owner has numbered have this bit, those that claim theirs do not.
constexpr std::uint64_t by_owner = std::uint64_t{1} << 63;

}  // namespace

rref_table::rref_table(remoting& actors, const node_identity& self)
    : actors_(actors), identity_(self), owned_(actors.driver(), actors.peers()) {}

rref_table::~rref_table() = default;

std::shared_ptr<node_core> rref_table::node() const {
  auto node = node_.lock();
  if (!node) throw not_initialized("the rref's node has been shut down");
  return node;
}

peer& rref_table::self() const { return *actors_.peers().find(identity_.rank); }

template <class... Ts>
void rref_table::tell(peer& to, const Ts&... xs) noexcept {
  actors_.send_control(to, rref_channel, xs...);
}

// ---- References that are here
// ---------------------------------------------------------------------------------------

void rref_table::enter(rref_core& one) {
  const std::lock_guard lock(mutex_);
  one.next_ = first_;
  if (first_) first_->before_ = &one;
  first_ = &one;
  ++used_;
}

void rref_table::leave(rref_core& one) noexcept {
  const std::lock_guard lock(mutex_);
  (one.before_ ? one.before_->next_ : first_) = one.next_;
  if (one.next_) one.next_->before_ = one.before_;
  --used_;
}

std::shared_ptr<rref_core> rref_table::make(peer& owner, const rref_id& id, const value_type& type,
                                            rref_core::origin how, std::uint64_t use,
                                            const std::source_location& site) {
  return std::make_shared<rref_core>(actors_.shared_from_this(), owner, id, type, how, use, site);
}

std::shared_ptr<rref_core> rref_table::own(value_cell value, const value_type& type,
                                           const std::source_location& site) {
  auto& here = self();
  auto core = expect(here, type, site);
  owned_.own(core->id(), std::move(value), type, here);
  core->set_value();
  return core;
}

std::shared_ptr<rref_core> rref_table::expect(peer& owner, const value_type& type,
                                              const std::source_location& site) {
  rref_id id{identity_.rank, owner.rank(), identity_.incarnation, owner.incarnation, 0};
  {
    const std::lock_guard lock(mutex_);
    id.number = ++last_number_[&owner];
  }
  return make(owner, id, type, rref_core::origin::creation, 0, site);
}

// The last copy of a reference is gone.
void rref_table::dropped(rref_core& one) noexcept {
  if (&one.owner() != &self()) {
    if (!one.owner().live()) return;  // it knows, or there is nothing left of it
    drop_queue::message some;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      auto& waiting = drops_[&one.owner()];
      waiting.add(one.id(), one.use());
      some = waiting.take();
    }
    if (!some.empty()) tell(one.owner(), note::drop, one.owner().incarnation, some);
    return;
  }
  let_go(owned_.drop(one.id(), self(), one.use()));
  let_go({std::move(one.local_), true});
}

// As many messages as may be under way now.
void rref_table::send_drops(peer& owner) noexcept {
  for (;;) {
    drop_queue::message some;
    {
      const std::lock_guard lock(mutex_);
      const auto place = drops_.find(&owner);
      if (place == drops_.end()) return;
      some = place->second.take();
    }
    if (some.empty()) return;
    tell(owner, note::drop, owner.incarnation, some);
  }
}

void rref_table::take_drops(decoder& in, peer& from) {
  const auto incarnation = in.get<std::uint64_t>();
  const auto all = in.get<drop_queue::message>();
  std::uint64_t uses = 0;
  for (const auto& some : all) uses += some.count;
  if (uses > drop_queue::most_uses)
    throw decode_error("a note claims that " + std::to_string(uses) + " references were dropped");
  rref_id id{0, identity_.rank, 0, incarnation, 0};
  for (const auto& some : all) {
    id.creator = some.creator;
    id.creator_incarnation = some.creator_incarnation;
    for (std::uint32_t i = 0; i < some.count; ++i) {
      id.number = some.first + i;
      let_go(owned_.drop(id, from, some.use));
    }
  }
  const bool tells = [&] {
    const std::lock_guard lock(mutex_);
    auto& taken = drops_taken_[&from];
    if (++taken < drop_queue::told_after) return false;
    taken = 0;
    return true;
  }();
  if (tells) tell(from, note::dropped, drop_queue::told_after);
}

// Its creation has failed, perhaps before the owner has heard of it (rule 8).
void rref_table::failed(const rref_core& one, const fault& why) noexcept {
  if (&one.owner() == &self())
    owned_.abandon(one.id(), self(), to_exception(why));
  else
    tell(one.owner(), note::abandon, one.id().number, to_caf(why));
}

// ---- Values of this node
// ---------------------------------------------------------------------------------------

value_cell rref_table::create(std::uint64_t number, const value_type& type, const peer& creator) {
  return owned_.create(
      {creator.rank(), identity_.rank, creator.incarnation, identity_.incarnation, number}, type,
      creator);
}

std::shared_ptr<rref_core> rref_table::hold(peer& owner, const rref_id& id,
                                            const value_type& type) {
  auto core = make(owner, id, type, rref_core::origin::grant, next_use(), {});
  core->set_value();
  tell(owner, note::hold, id, core->use());
  return core;
}

peer& rref_table::owner_of(const rref_id& id) const {
  auto* known = actors_.peers().find(id.owner, id.owner_incarnation);
  return known ? *known : actors_.peers().departed(id.owner, id.owner_incarnation);
}

value_cell rref_table::find(const rref_id& id, const value_type& type) {
  if (!owns(id))
    throw rref_gone(to_string(id) + " was owned by an earlier incarnation of this node");
  return owned_.find(id, type);
}

// What a destructor of the program does is nothing for the thread that leads the network.
void rref_table::let_go(owner_table::dropped&& what) noexcept {
  const bool runs_user_code = what.actor || (what.value && what.runs_user_code);
  if (!runs_user_code || engine::may_block()) return;
  auto* job = make_job([all = std::move(what)](caf::execution_unit*) {});
  if (!actors_.driver()->push_if_open(job)) intrusive_ptr_release(job);
}

// ---- References on their way
// ---------------------------------------------------------------------------------------

void rref_table::check_sendable(const rref_core& reference) const {
  if (&reference.actors() != &actors_)
    throw encode_error("an rref of another node of this process cannot be sent from " +
                       actors_.own_name() + ": rrefs travel in messages only");
  reference.check();
}

written_reference rref_table::lend(const std::shared_ptr<rref_core>& reference) const {
  check_sendable(*reference);
  written_reference written;
  written.id = reference->id();
  written.lent = reference;
  return written;
}

written_reference rref_table::write(encoder& out, const std::shared_ptr<rref_core>& reference,
                                    peer& to) {
  written_reference written;
  if (!reference) {
    out.put(reference_form::null);
    return written;
  }
  check_sendable(*reference);
  const bool grants = &reference->owner() == &self() && reference->ready();
  written.id = reference->id();
  {
    const std::lock_guard lock(mutex_);
    if (grants)
      written.use = ++last_grant_ | by_owner;
    else
      pins_.emplace(written.pin = ++last_pin_, pinned{reference, &to});
  }
  if (grants) (void)owned_.hold(written.id, to, written.use);
  out.put(grants ? reference_form::granted : reference_form::passed_on);
  out.put(written.id);
  out.put(reference->type().hash);
  out.put(grants ? written.use : written.pin);
  return written;
}

void rref_table::take_back(const written_reference& written, const peer& to) noexcept {
  if (written.use != 0) let_go(owned_.drop(written.id, to, written.use));
  if (written.pin != 0) unpin(written.pin, to);
}

void rref_table::unpin(std::uint64_t pin, const peer& receiver) {
  std::shared_ptr<rref_core> last;  // dropped outside of the lock
  const std::lock_guard lock(mutex_);
  if (auto place = pins_.find(pin); place != pins_.end() && place->second.receiver == &receiver) {
    last = std::move(place->second.what);
    pins_.erase(place);
  }
}

std::uint64_t rref_table::next_use() {
  const std::lock_guard lock(mutex_);
  return ++last_use_;
}

std::shared_ptr<rref_core> rref_table::read(decoder& in, peer& from, std::uint64_t type,
                                            std::string_view type_name) {
  const auto form = in.get<reference_form>();
  if (form == reference_form::null) return nullptr;
  if (form > reference_form::passed_on) throw decode_error("a reference of unknown form");
  const auto id = in.get<rref_id>();
  const auto its_type = in.get<std::uint64_t>();
  const auto number = in.get<std::uint64_t>();
  if (form == reference_form::granted &&
      (id.owner != from.rank() || id.owner_incarnation != from.incarnation))
    throw decode_error(to_string(id) + " was granted by a node that does not own it");
  auto& owner = owner_of(id);
  value_type known;
  known.hash = its_type;
  known.name = type_name;
  std::shared_ptr<rref_core> core;
  if (form == reference_form::granted) {
    core = make(owner, id, known, rref_core::origin::grant, number, {});
    core->set_value();
  } else {
    core = make(owner, id, known, rref_core::origin::claim, next_use(), {});
    claim(core, from, number);
  }
  // Only now: what has been given away for it must be given back.
  if (its_type != type)
    throw decode_error(to_string(id) + " is no rref<" + std::string(type_name) + '>');
  return core;
}

// ---- What tables tell each other
// ---------------------------------------------------------------------------------------

void rref_table::claim(const std::shared_ptr<rref_core>& what, peer& parent, std::uint64_t pin) {
  auto& owner = what->owner();
  claimed one{what, &parent, pin};
  if (&owner == &self()) {
    const bool gone = owned_.hold(what->id(), owner, what->use()) == owner_table::presence::gone;
    settle(std::move(one),
           gone ? std::make_exception_ptr(rref_gone(to_string(what->id()) + " exists no more"))
                : nullptr);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) claims_.emplace(what->use(), std::move(one));
  }
  tell(owner, note::claim, what->id(), what->use());
  const bool closed = [&] {
    const std::lock_guard lock(mutex_);
    return closed_;
  }();
  if (owner.live() && !closed) return;
  // The owner was lost, or this node closed, perhaps before the claim was in the table.
  if (auto lost = take_claim(what->use(), owner); lost.what)
    settle(std::move(lost), to_exception(owner.loss()));
  else if (closed)
    what->set_exception(std::make_exception_ptr(not_initialized("the node has been shut down")));
}

rref_table::claimed rref_table::take_claim(std::uint64_t use, const peer& owner) {
  const std::lock_guard lock(mutex_);
  auto place = claims_.find(use);
  if (place == claims_.end() || &place->second.what->owner() != &owner) return {};
  auto one = std::move(place->second);
  claims_.erase(place);
  return one;
}

void rref_table::settle(claimed&& one, std::exception_ptr denied) {
  tell(*one.parent, note::unpin, one.pin);
  if (denied)
    one.what->set_exception(std::move(denied));
  else
    one.what->set_value();
}

void rref_table::deliver(decoder& in, peer& from) {
  switch (in.get<note>()) {
    case note::claim: {
      const auto id = in.get<rref_id>();
      const auto use = in.get<std::uint64_t>();
      const bool known = owns(id) && owned_.hold(id, from, use) != owner_table::presence::gone;
      tell(from, note::confirm, use, known);
      return;
    }
    case note::hold: {
      const auto id = in.get<rref_id>();
      const auto use = in.get<std::uint64_t>();
      if (owns(id)) (void)owned_.hold(id, from, use);
      return;
    }
    case note::confirm: {
      const auto use = in.get<std::uint64_t>();
      const auto known = in.get<bool>();
      auto one = take_claim(use, from);
      if (!one.what) return;
      const auto id = one.what->id();
      settle(std::move(one), known ? nullptr
                                   : std::make_exception_ptr(rref_gone(
                                         to_string(id) + " exists no more on " + from.info.name)));
      return;
    }
    case note::unpin: return unpin(in.get<std::uint64_t>(), from);
    case note::drop: return take_drops(in, from);
    case note::abandon: {
      const auto number = in.get<std::uint64_t>();
      owned_.abandon({from.rank(), identity_.rank, from.incarnation, identity_.incarnation, number},
                     from, to_exception(to_fault(in.get<caf::error>())));
      return;
    }
    case note::dropped: {
      const auto messages = in.get<std::uint32_t>();
      {
        const std::lock_guard lock(mutex_);
        if (const auto place = drops_.find(&from); place != drops_.end())
          place->second.taken_up(messages);
      }
      return send_drops(from);
    }
  }
  throw decode_error("an rref's note of unknown kind");
}

// ---- Ends
// ---------------------------------------------------------------------------------------

void rref_table::bury(const peer& whom) {
  for (auto& one : owned_.bury(whom)) let_go(std::move(one));
  std::vector<std::shared_ptr<rref_core>> unpinned;
  std::vector<claimed> lost;
  {
    const std::lock_guard lock(mutex_);
    drops_.erase(&whom);
    drops_taken_.erase(&whom);
    std::erase_if(pins_, [&](auto& entry) {
      if (entry.second.receiver != &whom && &entry.second.what->owner() != &whom) return false;
      unpinned.push_back(std::move(entry.second.what));
      return true;
    });
    std::erase_if(claims_, [&](auto& entry) {
      if (&entry.second.what->owner() != &whom) return false;
      lost.push_back(std::move(entry.second));
      return true;
    });
  }
  for (auto& one : lost) settle(std::move(one), to_exception(whom.loss()));
}

void rref_table::close(const fault& why) {
  for (auto& one : owned_.close()) {
    if (one.value) one.value->set_exception(to_exception(why));  // who waits for it hears so
    let_go(std::move(one));
  }
  decltype(pins_) pins;
  decltype(claims_) claims;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pins.swap(pins_);
    claims.swap(claims_);
    drops_.clear();
  }
  for (auto& [use, one] : claims) one.what->set_exception(to_exception(why));
}

rref_table::census rref_table::count() const {
  const auto owned = owned_.size();
  const std::lock_guard lock(mutex_);
  std::size_t drops = 0;
  for (const auto& [owner, queue] : drops_) drops += queue.waiting();
  return {owned, used_, pins_.size(), drops};
}

bool rref_table::settled() const {
  const std::lock_guard lock(mutex_);
  return claims_.empty();
}

std::vector<rref_leak> rref_table::list() const {
  std::vector<rref_leak> out;
  const std::lock_guard lock(mutex_);
  for (const auto* one = first_; one; one = one->next_) {
    rref_leak leak;
    leak.id = one->id();
    leak.type = one->type().name;
    leak.site = one->site().line() == 0 ? "received"
                                        : std::string(one->site().file_name()) + ':' +
                                              std::to_string(one->site().line());
    leak.owner = one->owner().info.name;
    leak.holder = actors_.own_name();
    out.push_back(std::move(leak));
  }
  return out;
}

}  // namespace troupe::detail
