// What arrives: messages for actors, answers, and what the runtimes say to each other.
#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>

#include "troupe/actors/messaging/window_credit.hpp"
#include "troupe/actors/remote/incoming_message.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/remote/peer_watch.hpp"
#include "troupe/actors/remote/reference_protocol.hpp"
#include "troupe/actors/remote/remote_actors_internal.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe {

namespace {

constexpr std::uint32_t max_release = 1u << 30;

// Describes, as this node has it, the type or function that differs on the node that it was sent
// to.
std::string meant_by(const pending_request& request, const fault& why) {
  const auto name = name_in_mismatch(why);
  const auto* type = find_type(hash_name(name));
  if (type && type->name == name) return type->structure();
  return request.structure_here ? request.structure_here(request.target) : std::string();
}

}  // namespace

void remote_actors::deliver(opened_envelope& message, peer& from, window_credit&& taken,
                            caf::execution_unit* unit) {
  switch (message.header().kind) {
    case envelope_kind::actor_message:
      return deliver_to_actor(message, from, std::move(taken), unit);
    case envelope_kind::response:
    case envelope_kind::failure: return deliver_answer(message, from, unit);
    case envelope_kind::control: return deliver_control(message, from, unit);
    case envelope_kind::call: break;
  }
  throw decode_error("a call is not for an actor");
}

// Hot path of a call through a handle, at the callee.
void remote_actors::deliver_to_actor(opened_envelope& message, peer& from, window_credit&& taken,
                                     caf::execution_unit* unit) {
  const auto& header = message.header();
  try {
    detail::incoming_message in(*this, contexts_, message, from);
    detail::hand_to_default(in.copies());  // whichever thread runs the actor
    auto content = in.body().get<caf::message>();
    in.finish();
    const auto& place = in.tag();
    auto target = exports_->find(header.target);
    if (!target) {
      fault why;
      why.code = errc::actor_down;
      why.node = own_name();
      why.text = "actor " + std::to_string(header.target) + " has ended";
      if (header.request != 0) out_.send_fault(from, header.sender, header.request, why);
      return;
    }
    if (header.request == 0) lost_.check_arrival(contexts_, from, message, content);
    caf::strong_actor_ptr sender;
    caf::message_id mid;
    if (header.request != 0) {
      caf::actor_config config;
      sender = caf::make_actor<reply_address, caf::strong_actor_ptr>(
          header.sender, from.node, system_, config, shared_from_this(), from, header.request,
          place);
      mid = caf::message_id(header.request & 0xffffffff).with_normal_priority();
    } else if (header.sender != 0) {
      sender = proxy_of(from, header.sender, false);
    }
    if (header.urgent) mid = mid.with_high_priority();
    target->enqueue(make_mailbox_message(std::move(sender), mid, std::move(content), place.context,
                                         std::move(taken), {&from, due_at(header)}),
                    unit);
  } catch (...) {
    if (header.request == 0) throw;
    auto why = unreadable();
    why.node = own_name();
    out_.send_fault(from, header.sender, header.request, why);
  }
}

// Hot path of the answer.
void remote_actors::deliver_answer(opened_envelope& message, peer& from,
                                   caf::execution_unit* unit) {
  const auto& header = message.header();
  auto request = requests_->take(header.target, from.rank());
  if (!request) return;  // late: its call has timed out
  if (header.kind == envelope_kind::failure) {
    if (header.request == unread)
      for (const auto& one : request.references) references_->take_back(one, from);
    fault why;
    try {
      why = message.why();
    } catch (const decode_error& e) {
      why = e.fault();
    }
    if (why.function.empty() && why.via.empty()) why.function = request.function;
    if (why.code == errc::type_mismatch) complete_mismatch(why, own_name(), meant_by(request, why));
    answer(std::move(request), std::move(why), unit);
  } else if (request.sink) {
    request.sink->on_value(message);
  } else {
    caf::message content;
    try {
      detail::incoming_message in(*this, contexts_, message, from);
      detail::hand_to_default(in.copies());
      content = in.body().get<caf::message>();
      in.finish();
      if (request.watched) lost_.check_answer(contexts_, from, request.function, message);
    } catch (...) {
      answer(std::move(request), unreadable(), unit);
      return;
    }
    request.sender->enqueue(make_mailbox_message(nullptr, request.mid.response_id(),
                                                 std::move(content), request.context),
                            unit);
  }
}

void remote_actors::deliver_control(opened_envelope& message, peer& from,
                                    caf::execution_unit* unit) {
  handle_scope handles(*this, from);
  decoder in(message.body(), nullptr, &handles);
  switch (in.get<control>()) {
    case control::watch: {
      auto id = in.get<caf::actor_id>();
      auto report = [weak = weak_from_this(), id, &from](const caf::error& reason) {
        if (auto self = weak.lock()) self->send_control(from, control::down, id, reason);
      };
      if (auto actor = exports_->find(id)) {
        actor->get()->detach(peer_watch::of(from));
        actor->get()->attach(std::make_unique<peer_watch>(from, report));
      } else {
        fault why;
        why.code = errc::actor_down;
        why.node = own_name();
        why.text = "the actor had ended before";
        report(to_caf(why));
      }
      break;
    }
    case control::down: {
      auto id = in.get<caf::actor_id>();
      auto reason = in.get<caf::error>();
      const key name{from.rank(), from.incarnation, id};
      caf::strong_actor_ptr proxy;
      caf::attachable_ptr orphans;
      {
        std::lock_guard guard(mutex_);
        auto place = proxies_.find(name);
        if (place != proxies_.end()) proxy = caf::actor_cast<caf::strong_actor_ptr>(place->second);
        if (auto left = orphans_.extract(name)) orphans = std::move(left.mapped());
      }
      notify(orphans, reason, unit);
      if (proxy) static_cast<actor_proxy*>(proxy->get())->kill_proxy(unit, std::move(reason));
      break;
    }
    // All grants of a proxy whose last copy has gone.
    case control::release: {
      auto id = in.get<caf::actor_id>();
      auto count = in.get<std::uint32_t>();
      exports_->release(id, from, std::min(count, max_release));
      break;
    }
    // The owner grants, and has the node that passed the handle on drop its pin.
    case control::claim: {
      auto id = in.get<caf::actor_id>();
      auto holder = in.get<transport::rank_t>();
      auto incarnation = in.get<std::uint64_t>();
      auto pin = in.get<std::uint64_t>();
      auto* pinned_by = peers_.find(holder);
      if (!pinned_by) throw decode_error("a claim names an unknown rank");
      if (auto actor = exports_->find(id)) exports_->grant(actor, from);
      if (from.gone()) exports_->release_all(from);  // evicted meanwhile, before the grant perhaps
      // The next incarnation of a lost node has pins of the same numbers.
      if (pinned_by->incarnation == incarnation)
        send_control(*pinned_by, control::unpin, pin, from.rank(), from.incarnation);
      break;
    }
    case control::unpin: {
      const auto pin = in.get<std::uint64_t>();
      const auto receiver = in.get<transport::rank_t>();
      const claim_report claim{&from, peers_.find(receiver, in.get<std::uint64_t>())};
      unpin(pin, &claim);
      break;
    }
    case control::window: {
      const auto what = in.get<flow_control::signal>();
      const auto first = in.get<std::uint64_t>();
      flow_->deliver(from, what, first, in.get<std::uint64_t>());
      break;
    }
    default: throw decode_error("a control message of unknown kind");
  }
}

}  // namespace troupe
