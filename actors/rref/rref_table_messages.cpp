// The messages between rref tables.
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/drops.hpp"
#include "troupe/actors/rref/owner_table.hpp"
#include "troupe/actors/rref/rref_message.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/messages/envelope/error_codec.hpp"

namespace troupe::detail {

// False: it could not be sent. Errors are dropped: if the peer is lost, `evict` settles what the
// message was about.
bool rref_table::send(peer& to, message_builder& message) noexcept {
  // The next incarnation of a lost node has values of the same numbers.
  if (!to.live()) return false;
  const gate::pass pass(actors_.out().entrance());
  if (!pass) return false;
  try {
    envelope_header header;
    header.target = rref_channel;
    actors_.out().send(to, 0, header, &message);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// The creation has failed, perhaps before it has reached the owner (rule 8).
void rref_table::creation_failed(const rref_use& one, const fault& why) noexcept {
  if (&one.owner() == &self())
    owned_->abandon(one.id(), self(), to_exception(why));
  else
    actors_.out().try_send_control(one.owner(), rref_channel, rref_message::abandon,
                                   one.id().number, to_caf(why));
}

std::shared_ptr<rref_use> rref_table::hold(peer& owner, const rref_id& id, const value_type& type) {
  auto core = make(owner, id, type, rref_use::origin::grant, next_use(), {});
  core->set_value();
  actors_.out().try_send_control(owner, rref_channel, rref_message::hold, id, core->use());
  return core;
}

// Rule 3: the owner knows the receiver, whose reference may outlive this one.
void rref_table::unpin(std::uint64_t pin, const peer& receiver) {
  std::shared_ptr<rref_use> last;  // dropped outside of the lock
  const std::lock_guard lock(mutex_);
  if (auto place = pins_.find(pin); place != pins_.end() && place->second.receiver == &receiver) {
    last = std::move(place->second.what);
    pins_.erase(place);
  }
}

// Rules 2 to 4: asks the owner to know this use. `settle` ends it, and the pin of the `parent`.
void rref_table::claim(const std::shared_ptr<rref_use>& what, peer& parent, std::uint64_t pin) {
  auto& owner = what->owner();
  claimed one{what, &parent, pin};
  if (&owner == &self()) {
    const bool gone = owned_->hold(what->id(), owner, what->use()) == owner_table::presence::gone;
    settle(std::move(one),
           gone ? std::make_exception_ptr(rref_gone(to_string(what->id()) + " exists no more"))
                : nullptr);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) claims_.emplace(what->use(), std::move(one));
  }
  actors_.out().try_send_control(owner, rref_channel, rref_message::claim, what->id(), what->use());
  const bool closed = [&] {
    const std::lock_guard lock(mutex_);
    return closed_;
  }();
  if (owner.live() && !closed) return;
  // The owner was lost, or this node closed, perhaps before the claim was in the table: `evict` and
  // `close` may not have seen it.
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

// The owner has answered, or is lost: the parent need not keep its own any longer (rule 3).
void rref_table::settle(claimed&& one, std::exception_ptr denied) {
  actors_.out().try_send_control(*one.parent, rref_channel, rref_message::unpin, one.pin);
  if (denied)
    one.what->set_exception(std::move(denied));
  else
    one.what->set_value();
}

void rref_table::deliver(decoder& in, peer& from) {
  drops_->retry(from);
  switch (in.get<rref_message>()) {
    // Rule 2: torch's fork request, whose confirmation is the answer.
    case rref_message::claim: {
      const auto id = in.get<rref_id>();
      const auto use = in.get<std::uint64_t>();
      const bool known = owns(id) && owned_->hold(id, from, use) != owner_table::presence::gone;
      actors_.out().try_send_control(from, rref_channel, rref_message::confirm, use, known);
      return;
    }
    // Rule 9: the callee of a loan holds the value itself.
    case rref_message::hold: {
      const auto id = in.get<rref_id>();
      const auto use = in.get<std::uint64_t>();
      if (owns(id)) (void)owned_->hold(id, from, use);
      return;
    }
    // Rule 4: the program may see the reference now, or its message fails.
    case rref_message::confirm: {
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
    // Rule 3.
    case rref_message::unpin: return unpin(in.get<std::uint64_t>(), from);
    // Rules 1 and 5.
    case rref_message::drop:
      return drops_->take(in, from, [&](const rref_id& id, std::uint64_t use) {
        destroy(owned_->drop(id, from, use));
      });
    // Rule 8.
    case rref_message::abandon: {
      const auto number = in.get<std::uint64_t>();
      owned_->abandon(
          {from.rank(), identity_.rank, from.incarnation, identity_.incarnation, number}, from,
          to_exception(to_fault(in.get<caf::error>())));
      return;
    }
    // Rule 11.
    case rref_message::dropped: return drops_->acknowledged(from, in.get<std::uint32_t>());
  }
  throw decode_error("a message about references of unknown kind");
}

}  // namespace troupe::detail
