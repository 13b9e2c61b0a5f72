// Handles in messages between nodes, and the remote actors that they become.
#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>

#include "troupe/actors/remote/remote_actors_internal.hpp"

namespace troupe {

namespace {

// How a handle is written.
enum class handle_form : std::uint8_t { null, own, passed_on };

void append(caf::attachable_ptr& list, caf::attachable_ptr more) {
  auto* end = &list;
  while (*end) end = &(*end)->next;
  *end = std::move(more);
}

}  // namespace

void remote_actors::write_handle(encoder& out, const caf::strong_actor_ptr& handle, peer& to,
                                 std::vector<written_handle>& written) {
  if (!handle) {
    out.put(handle_form::null);
    return;
  }
  if (handle->home_system != system_)
    throw encode_error("an actor handle of another node of this process cannot be sent from " +
                       own_name() + ": handles travel in messages only");
  if (is_own(handle)) {
    exports_->grant(handle, to);
    written.push_back({.granted = handle->id()});
    out.put(handle_form::own);
    out.put(handle->id());
    return;
  }
  caf::strong_actor_ptr proxy = handle;
  auto* remote = dynamic_cast<actor_proxy*>(handle->get());
  if (!remote) {
    // The sender of a request: the handle that lasts is another one.
    proxy = nullptr;
    for (auto* owner : peers_.all())
      if (owner->node == handle->node() && handle->id() != 0)
        proxy = proxy_of(*owner, handle->id(), false);
    remote = proxy ? dynamic_cast<actor_proxy*>(proxy->get()) : nullptr;
    if (!remote) throw encode_error("this kind of actor handle cannot be sent");
  }
  // Kept until the owner knows the receiver, by its claim.
  std::uint64_t pin = 0;  // none when the owner is lost: it would report no claim
  {
    std::lock_guard guard(mutex_);
    if (!remote->home().gone()) {
      pin = ++last_pin_;
      pins_.emplace(pin, pinned{proxy, &to});
    }
  }
  if (pin != 0) written.push_back({.pin = pin});
  out.put(handle_form::passed_on);
  out.put(handle->id());
  out.put(remote->home().rank());
  out.put(remote->home().incarnation);
  out.put(pin);
}

void remote_actors::take_back(const std::vector<written_handle>& written, peer& from) noexcept {
  for (const auto& handle : written) {
    if (handle.granted != 0) exports_->release(handle.granted, from, 1);
    if (handle.pin != 0) unpin(handle.pin, nullptr);
  }
}

// `why`: what is known of its claim; nullptr: the message with the handle has not been sent.
void remote_actors::unpin(std::uint64_t pin, const claim_report* why) {
  caf::strong_actor_ptr last;  // dropped outside of the lock
  std::lock_guard guard(mutex_);
  auto place = pins_.find(pin);
  if (place == pins_.end()) return;
  const auto& one = place->second;
  if (why && (why->owner != &one.owner() || why->receiver != one.receiver)) return;
  last = std::move(place->second.handle);
  pins_.erase(place);
}

caf::strong_actor_ptr remote_actors::read_handle(decoder& in, peer& from) {
  const auto self = out_.self().rank;
  switch (in.get<handle_form>()) {
    case handle_form::null: return nullptr;
    case handle_form::own: {
      auto id = in.get<caf::actor_id>();
      if (from.rank() != self) return proxy_of(from, id, true);
      auto actor = exports_->find(id);
      exports_->release(id, from, 1);
      return actor ? actor : ended_here(id);
    }
    case handle_form::passed_on: {
      auto id = in.get<caf::actor_id>();
      auto owner = in.get<transport::rank_t>();
      auto incarnation = in.get<std::uint64_t>();
      auto pin = in.get<std::uint64_t>();
      auto* home = peers_.find(owner, incarnation);
      if (!home) home = &peers_.departed(owner, incarnation);
      if (owner == self && home->incarnation == incarnation && home->live()) {
        // It is this node's own: no claim is needed.
        auto actor = exports_->find(id);
        send_control(from, control::unpin, pin, self, out_.self().incarnation);
        return actor ? actor : ended_here(id);
      }
      // The owner grants when it gets the claim, and has `from` drop its pin.
      auto proxy = proxy_of(*home, id, true);
      send_control(*home, control::claim, id, from.rank(), from.incarnation, pin);
      return proxy;
    }
  }
  throw decode_error("a handle of unknown form");
}

// Stands for an actor of this node that has ended: requests to it fail with that.
caf::strong_actor_ptr remote_actors::ended_here(caf::actor_id id) {
  fault why;
  why.code = errc::actor_down;
  why.node = own_name();
  why.text = "actor " + std::to_string(id) + " has ended";
  auto proxy = proxy_of(*peers_.find(out_.self().rank), id, false);
  static_cast<actor_proxy*>(proxy->get())->kill_proxy(nullptr, to_caf(why));
  return proxy;
}

caf::strong_actor_ptr remote_actors::proxy_of(peer& owner, caf::actor_id id, bool granted) {
  caf::strong_actor_ptr proxy;
  bool lost = false;
  {
    std::lock_guard guard(mutex_);
    auto& known = proxies_[{owner.rank(), owner.incarnation, id}];
    proxy = caf::actor_cast<caf::strong_actor_ptr>(known);
    if (!proxy) {
      caf::actor_config config;
      proxy = caf::make_actor<actor_proxy, caf::strong_actor_ptr>(id, owner.node, system_, config,
                                                                  shared_from_this(), owner);
      known = caf::actor_cast<caf::weak_actor_ptr>(proxy);
      lost = owner.gone();
    }
    if (granted) static_cast<actor_proxy*>(proxy->get())->grants_.fetch_add(1);
  }
  if (lost) static_cast<actor_proxy*>(proxy->get())->kill_proxy(nullptr, to_caf(owner.loss()));
  return proxy;
}

// Those who watch the actor do so without a handle now.
void remote_actors::gone(actor_proxy& proxy) {
  const key name = key_of(proxy);
  const bool watched = proxy.attachables_head_ != nullptr;
  bool lost = false;
  {
    std::lock_guard guard(mutex_);
    auto place = proxies_.find(name);
    // A new handle may have taken the place already.
    if (place != proxies_.end() && place->second.get() == proxy.ctrl()) proxies_.erase(place);
    lost = proxy.home().gone();
    if (watched && !lost) append(orphans_[name], std::move(proxy.attachables_head_));
  }
  if (watched && lost) {
    notify(proxy.attachables_head_, to_caf(proxy.home().loss()), nullptr);
    return;
  }
  if (lost) return;
  // Once more: the end may have come while there was neither handle nor orphan.
  if (watched) send_control(proxy.home(), control::watch, name.id);
  if (auto grants = proxy.grants_.load())
    send_control(proxy.home(), control::release, name.id, grants);
}

}  // namespace troupe
