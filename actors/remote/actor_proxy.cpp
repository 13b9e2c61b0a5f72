#include "troupe/actors/remote/actor_proxy.hpp"

#include <caf/mailbox_element.hpp>

#include "troupe/actors/remote/local_requester.hpp"

namespace troupe {

remote_actor::remote_actor(caf::actor_config& config, std::shared_ptr<remote_actors> owner, peer& home)
    : caf::actor_proxy(config), owner_(std::move(owner)), home_(home) {}

remote_actor::~remote_actor() {
  if (!forked::from_nodes()) owner_->gone(*this);
}

void remote_actor::enqueue(caf::mailbox_element_ptr message_builder, caf::execution_unit* host) {
  if (!ended()) return owner_->forward(*this, std::move(message_builder));
  auto why = reason();
  if (!message_builder->mid.is_request() || !message_builder->sender) return bounce(message_builder);
  // CAF would say no more than that the receiver is down.
  if (!is_troupe(why)) {
    if (!dynamic_cast<detail::local_asker*>(message_builder->sender->get())) return bounce(message_builder);
    fault told;
    told.code = errc::actor_down;
    told.node = home_.info.name;
    told.text = "actor " + std::to_string(id()) + " has ended";
    if (why) told.text += " (" + to_fault(why).text + ")";
    why = to_caf(told);
  }
  message_builder->sender->enqueue(
      caf::make_mailbox_element(nullptr, message_builder->mid.response_id(), {}, caf::make_message(why)),
      host);
}

caf::error remote_actor::reason() {
  return shared_critical_section([&] { return fail_state_; });
}

void remote_actor::attach(caf::attachable_ptr what) {
  caf::actor_proxy::attach(std::move(what));
  watch_once();
}

bool remote_actor::add_backlink(caf::abstract_actor* other) {
  auto added = caf::actor_proxy::add_backlink(other);
  if (added) watch_once();
  return added;
}

void remote_actor::watch_once() {
  if (!forked::from_nodes() && !watched_.exchange(true)) owner_->watch(*this);
}

void remote_actor::kill_proxy(caf::execution_unit* host, caf::error reason) {
  cleanup(std::move(reason), host);
}

reply_address::reply_address(caf::actor_config& config, std::shared_ptr<remote_actors> owner,
                             peer& asker, std::uint64_t request, const detail::message_tag& place)
    : caf::actor_proxy(config),
      owner_(std::move(owner)),
      from_(asker),
      request_(request),
      place_(place) {}

reply_address::~reply_address() {
  if (answered_) return;
  gate::pass pass(owner_->entrance());
  if (!pass) return;  // the node has been shut down
  fault why;
  why.code = errc::remote_error;
  why.type = "troupe::broken_promise";
  why.text = "the handler dropped the request without an answer";
  why.node = owner_->own_name();
  owner_->out().send_fault(from_, id(), request_, why);
}

void reply_address::enqueue(caf::mailbox_element_ptr message_builder, caf::execution_unit* host) {
  if (message_builder->mid.is_response()) {
    if (!answered_.exchange(true))
      owner_->reply(from_, id(), request_, place_, message_builder->move_content_to_message());
  } else if (auto target = asker()) {
    target->enqueue(std::move(message_builder), host);
  } else {
    bounce(message_builder, caf::sec::request_receiver_down);
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
