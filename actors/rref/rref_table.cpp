#include "troupe/actors/rref/rref_table.hpp"

#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/drops.hpp"
#include "troupe/actors/rref/owner_table.hpp"
#include "troupe/actors/scheduler/work_item.hpp"

namespace troupe::detail {

namespace {

// How a reference is written: `granted` by its owner, or `passed_on` by another node.
enum class reference_form : std::uint8_t { null, granted, passed_on };

}  // namespace

rref_table::rref_table(remote_actors& actors, const node_identity& self)
    : actors_(actors),
      identity_(self),
      owned_(std::make_unique<owner_table>(actors.driver(), actors.peers())),
      drops_(std::make_unique<drops>(
          self.rank, [this](peer& to, message_builder& message) { return send(to, message); })) {}

rref_table::~rref_table() = default;

std::shared_ptr<rpc_agent> rref_table::agent() const {
  auto agent = agent_.lock();
  if (!agent) throw not_initialized("the rref's node has been shut down");
  return agent;
}

const std::string& rref_table::own_name() const noexcept { return actors_.own_name(); }

caf::strong_actor_ptr rref_table::actor(const rref_id& id,
                                        const std::function<caf::strong_actor_ptr()>& make) {
  return owned_->actor(id, make);
}

peer& rref_table::self() const { return *actors_.peers().find(identity_.rank); }

// ---- References that are here

void rref_table::enter(rref_use& one) noexcept {
  const std::lock_guard lock(mutex_);
  one.next_ = first_;
  if (first_) first_->before_ = &one;
  first_ = &one;
  ++used_;
}

void rref_table::leave(rref_use& one) noexcept {
  const std::lock_guard lock(mutex_);
  (one.before_ ? one.before_->next_ : first_) = one.next_;
  if (one.next_) one.next_->before_ = one.before_;
  --used_;
}

std::shared_ptr<rref_use> rref_table::make(peer& owner, const rref_id& id, const value_type& type,
                                           rref_use::origin how, std::uint64_t use,
                                           const std::source_location& site) {
  // The table lives as long as `actors_`, which a reference keeps: references may outlive the node.
  std::shared_ptr<rref_registry> here(actors_.shared_from_this(),
                                      static_cast<rref_registry*>(this));
  auto made = std::make_shared<rref_use>(std::move(here), actors_, owner, id, type, how, use, site);
  enter(*made);
  return made;
}

std::shared_ptr<rref_use> rref_table::own(value_cell value, const value_type& type,
                                          const std::source_location& site) {
  auto& here = self();
  auto core = expect(here, type, site);
  core->hold_own(std::move(value));  // before `reserve`: `close` takes it from the use
  owned_->reserve(core->id(), here);
  core->set_value();
  return core;
}

std::shared_ptr<rref_use> rref_table::expect(peer& owner, const value_type& type,
                                             const std::source_location& site) {
  rref_id id{identity_.rank, owner.rank(), identity_.incarnation, owner.incarnation, 0};
  {
    const std::lock_guard lock(mutex_);
    id.number = ++last_number_[&owner];
  }
  return make(owner, id, type, rref_use::origin::creation, 0, site);
}

// The last copy of a reference goes.
void rref_table::release(rref_use& one) noexcept {
  leave(one);
  if (&one.owner() != &self()) return drops_->add(one.owner(), one.id(), one.use());
  destroy(owned_->drop(one.id(), self(), one.use()));
  if (one.own_) {
    one.local_ = nullptr;  // the same value
    destroy({std::move(one.own_), one.type().runs_user_code});
  } else {
    destroy({std::move(one.local_), true});
  }
}

// ---- Values of this node

value_cell rref_table::create(std::uint64_t number, const value_type& type, const peer& creator) {
  drops_->retry(creator);
  return owned_->create(
      {creator.rank(), identity_.rank, creator.incarnation, identity_.incarnation, number}, type,
      creator);
}

peer& rref_table::owner_of(const rref_id& id) const {
  auto* known = actors_.peers().find(id.owner, id.owner_incarnation);
  return known ? *known : actors_.peers().departed(id.owner, id.owner_incarnation);
}

value_cell rref_table::find(const rref_id& id, const value_type& type) {
  if (!owns(id))
    throw rref_gone(to_string(id) + " was owned by an earlier incarnation of this node");
  return owned_->find(id, type);
}

void rref_table::publish(const rref_use& one) {
  if (auto mine = one.own()) owned_->own(one.id(), std::move(mine), one.type(), self(), 0);
}

// The program's destructors may block, so they do not run on the thread that leads the network.
void rref_table::destroy(owner_table::dropped&& what) noexcept {
  const bool runs_user_code = what.actor || (what.value && what.runs_user_code);
  if (!runs_user_code || engine::may_block()) return;
  auto* work = make_work_item([all = std::move(what)](caf::execution_unit*) {});
  if (!actors_.driver()->push_if_open(work)) intrusive_ptr_release(work);
}

// ---- References on their way

void rref_table::check_sendable(const rref_use& reference) const {
  if (&reference.table() != this)
    throw encode_error("an rref of another node of this process cannot be sent from " + own_name() +
                       ": rrefs travel in messages only");
  reference.check();
}

written_reference rref_table::lend(const std::shared_ptr<rref_use>& reference) {
  check_sendable(*reference);
  reference->publish();
  written_reference written;
  written.id = reference->id();
  written.lent = reference;
  return written;
}

written_reference rref_table::write(encoder& out, const std::shared_ptr<rref_use>& reference,
                                    peer& to) {
  written_reference written;
  if (!reference) {
    out.put(reference_form::null);
    return written;
  }
  check_sendable(*reference);
  // A grant of the owner (rule 2); or a pin, until the receiver has claimed its use (rule 3).
  const bool grants = &reference->owner() == &self() && reference->ready();
  written.id = reference->id();
  {
    const std::lock_guard lock(mutex_);
    if (grants)
      written.use = ++last_grant_ | rref_use::by_owner;
    else
      pins_.emplace(written.pin = ++last_pin_, pinned{reference, &to});
  }
  if (grants) grant(*reference, to, written.use);
  out.put(grants ? reference_form::granted : reference_form::passed_on);
  out.put(written.id);
  out.put(reference->type().hash);
  out.put(grants ? written.use : written.pin);
  return written;
}

// One more holder of a value of this node (rule 12).
void rref_table::grant(const rref_use& one, const peer& to, std::uint64_t use) {
  if (auto mine = one.own())
    owned_->own(one.id(), std::move(mine), one.type(), to, use);
  else
    (void)owned_->hold(one.id(), to, use);
}

void rref_table::take_back(const written_reference& written, const peer& to) noexcept {
  if (written.use != 0) destroy(owned_->drop(written.id, to, written.use));
  if (written.pin != 0) unpin(written.pin, to);
}

std::uint64_t rref_table::next_use() {
  const std::lock_guard lock(mutex_);
  return ++last_use_;
}

std::shared_ptr<rref_use> rref_table::read(decoder& in, peer& from, std::uint64_t type,
                                           std::string_view type_name, claims& unconfirmed) {
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
  std::shared_ptr<rref_use> core;
  if (form == reference_form::granted) {
    core = make(owner, id, known, rref_use::origin::grant, number, {});
    core->set_value();
  } else {
    core = make(owner, id, known, rref_use::origin::claim, next_use(), {});
    claim(core, from, number);
  }
  // Only now: a use that was granted must be dropped, and a pin must be removed.
  if (its_type != type)
    throw decode_error(to_string(id) + " is no rref<" + std::string(type_name) + '>');
  if (!core->ready()) unconfirmed.push_back(core);
  return core;
}

// ---- Ends

void rref_table::evict(const peer& whom) {
  for (auto& one : owned_->evict(whom)) destroy(std::move(one));
  drops_->evict(whom);
  std::vector<std::shared_ptr<rref_use>> unpinned;
  std::vector<claimed> lost;
  {
    const std::lock_guard lock(mutex_);
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
  for (auto& one : owned_->close()) {
    if (one.value) one.value->set_exception(to_exception(why));  // for those that wait for it
    destroy(std::move(one));
  }
  decltype(pins_) pins;
  decltype(claims_) unconfirmed;
  std::vector<owner_table::dropped> own;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pins.swap(pins_);
    unconfirmed.swap(claims_);
    for (auto* one = first_; one; one = one->next_)
      // In the order of locks that `rref_use::local` names.
      if (auto value = one->give_up_own())
        own.push_back({std::move(value), one->type().runs_user_code});
  }
  for (auto& one : own) destroy(std::move(one));
  drops_->close();
  for (auto& [use, one] : unconfirmed) one.what->set_exception(to_exception(why));
}

rref_counts rref_table::count() const {
  const auto owned = owned_->size();
  const auto drops = drops_->waiting();
  const std::lock_guard lock(mutex_);
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
    leak.text = one->text();
    leak.type = one->type().name;
    leak.site = one->site().line() == 0 ? "received"
                                        : std::string(one->site().file_name()) + ':' +
                                              std::to_string(one->site().line());
    leak.owner = one->owner().info.name;
    leak.holder = own_name();
    out.push_back(std::move(leak));
  }
  return out;
}

}  // namespace troupe::detail
