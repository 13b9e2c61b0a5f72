#include "troupe/actors/remote/actor_proxy.hpp"

#include <caf/mailbox_element.hpp>

#include "troupe/actors/remote/local_requester.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe {

actor_proxy::actor_proxy(caf::actor_config& config, std::shared_ptr<proxy_owner> owner, peer& home)
    : caf::actor_proxy(config), owner_(std::move(owner)), home_(home) {}

actor_proxy::~actor_proxy() {
  if (!forked::from_nodes()) owner_->gone(*this);
}

void actor_proxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (!ended()) return owner_->forward(*this, std::move(what));
  auto why = reason();
  if (!what->mid.is_request() || !what->sender) return bounce(what);
  // CAF would say no more than that the receiver is down.
  if (!is_troupe(why)) {
    if (!dynamic_cast<detail::local_requester*>(what->sender->get())) return bounce(what);
    fault told;
    told.code = errc::actor_down;
    told.node = home_.info.name;
    told.text = "actor " + std::to_string(id()) + " has ended";
    if (why) told.text += " (" + to_fault(why).text + ")";
    why = to_caf(told);
  }
  what->sender->enqueue(
      caf::make_mailbox_element(nullptr, what->mid.response_id(), {}, caf::make_message(why)),
      host);
}

caf::error actor_proxy::reason() {
  return shared_critical_section([&] { return fail_state_; });
}

void actor_proxy::attach(caf::attachable_ptr what) {
  caf::actor_proxy::attach(std::move(what));
  watch_once();
}

bool actor_proxy::add_backlink(caf::abstract_actor* other) {
  auto added = caf::actor_proxy::add_backlink(other);
  if (added) watch_once();
  return added;
}

void actor_proxy::watch_once() {
  if (!forked::from_nodes() && !watched_.exchange(true)) owner_->watch(*this);
}

void actor_proxy::kill_proxy(caf::execution_unit* host, caf::error reason) {
  cleanup(std::move(reason), host);
}

reply_address::reply_address(caf::actor_config& config, std::shared_ptr<proxy_owner> owner,
                             peer& asker, std::uint64_t request, const detail::message_tag& place)
    : caf::actor_proxy(config),
      owner_(std::move(owner)),
      from_(asker),
      request_(request),
      place_(place) {}

reply_address::~reply_address() {
  if (!answered_) owner_->reply_dropped(from_, id(), request_);
}

void reply_address::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (what->mid.is_response()) {
    if (!answered_.exchange(true))
      owner_->reply(from_, id(), request_, place_, what->move_content_to_message());
  } else if (auto target = asker()) {
    target->enqueue(std::move(what), host);
  } else {
    bounce(what, caf::sec::request_receiver_down);
  }
}

caf::strong_actor_ptr reply_address::asker() {
  return id() == 0 ? nullptr : owner_->proxy_of(from_, id(), false);
}

void reply_address::attach(caf::attachable_ptr what) {
  if (auto target = asker())
    target->get()->attach(std::move(what));
  else
    what->actor_exited(caf::sec::request_receiver_down, nullptr);
}

bool reply_address::add_backlink(caf::abstract_actor* other) {
  auto target = asker();
  return target && target->get()->add_backlink(other);
}

void reply_address::kill_proxy(caf::execution_unit* host, caf::error reason) {
  cleanup(std::move(reason), host);
}

}  // namespace troupe
