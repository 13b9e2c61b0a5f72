// What tables of rrefs tell each other.
#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/messages/envelope/error_codec.hpp"

namespace troupe::detail {

// False: it could not be sent. Nobody hears why: if it is the peer's loss, that settles what it was
// about.
bool rref_table::send(peer& to, message_builder& text) noexcept {
  // The next incarnation of a lost node has values of the same numbers.
  if (!to.live()) return false;
  const gate::pass pass(actors_.entrance());
  if (!pass) return false;
  try {
    envelope_header header;
    header.target = rref_channel;
    actors_.out().send(to, 0, header, &text);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

template <class... Ts>
void rref_table::tell(peer& to, const Ts&... xs) noexcept {
  try {
    message_builder text(nullptr);
    (text.body().put(xs), ...);
    (void)send(to, text);
  } catch (const std::exception&) {
    // There is no memory for it.
  }
}

// Its creation has failed, perhaps before the owner has heard of it (rule 8).
void rref_table::failed(const rref_core& one, const fault& why) noexcept {
  if (&one.owner() == &self())
    owned_.abandon(one.id(), self(), to_exception(why));
  else
    tell(one.owner(), note::abandon, one.id().number, to_caf(why));
}

std::shared_ptr<rref_core> rref_table::hold(peer& owner, const rref_id& id,
                                            const value_type& type) {
  auto core = make(owner, id, type, rref_core::origin::grant, next_use(), {});
  core->set_value();
  tell(owner, note::hold, id, core->use());
  return core;
}

void rref_table::unpin(std::uint64_t pin, const peer& receiver) {
  std::shared_ptr<rref_core> last;  // dropped outside of the lock
  const std::lock_guard lock(mutex_);
  if (auto place = pins_.find(pin); place != pins_.end() && place->second.receiver == &receiver) {
    last = std::move(place->second.what);
    pins_.erase(place);
  }
}

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
  drops_.heard_of(from);
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
    case note::drop:
      return drops_.take(in, from, [&](const rref_id& id, std::uint64_t use) {
        let_go(owned_.drop(id, from, use));
      });
    case note::abandon: {
      const auto number = in.get<std::uint64_t>();
      owned_.abandon({from.rank(), identity_.rank, from.incarnation, identity_.incarnation, number},
                     from, to_exception(to_fault(in.get<caf::error>())));
      return;
    }
    case note::dropped: return drops_.taken_up(from, in.get<std::uint32_t>());
  }
  throw decode_error("an rref's note of unknown kind");
}

}  // namespace troupe::detail
