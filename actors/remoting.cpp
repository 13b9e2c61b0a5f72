#include "actors/remoting.hpp"

#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "actors/job.hpp"
#include "actors/remote_actor.hpp"
#include "messages/log.hpp"

namespace troupe {

namespace {

// What nodes' runtimes say to each other about actors.
enum class control : std::uint8_t {
  watch,    // id: tell me when it ends
  down,     // id, reason: it has ended
  release,  // id, count: I have dropped so many handles
  claim,    // id, holder, pin: I have a handle of yours from `holder`
  unpin,    // pin: the handle that you passed on has been claimed
};

// How a handle is written.
enum class handle_form : std::uint8_t { null, own, passed_on };

constexpr std::uint32_t max_release = 1u << 30;

// What went wrong just now, while a message was written or read: one of our errors, or what a
// user's type threw.
fault unreadable() { return describe(std::current_exception(), {}, {}); }

void append(caf::attachable_ptr& list, caf::attachable_ptr more) {
  auto* end = &list;
  while (*end) end = &(*end)->next;
  *end = std::move(more);
}

// The values of the entries that match, which the table loses.
template <class Table, class Match>
auto take_out(Table& table, const Match& match) {
  std::vector<typename Table::mapped_type> out;
  for (auto place = table.begin(); place != table.end();) {
    if (match(*place)) {
      out.push_back(std::move(place->second));
      place = table.erase(place);
    } else {
      ++place;
    }
  }
  return out;
}

void tell(const caf::attachable_ptr& watchers, const caf::error& why, caf::execution_unit* unit) {
  for (auto* i = watchers.get(); i; i = i->next.get()) i->actor_exited(why, unit);
}

}  // namespace

remoting::remoting(mail& out, std::shared_ptr<engine> driver,
                   std::function<std::string(transport::rank_t)> name_of)
    : out_(out), engine_(std::move(driver)), name_of_(std::move(name_of)) {}

remoting::~remoting() = default;

void remoting::attach(caf::actor_system& system, std::vector<caf::node_id> nodes) {
  system_ = &system;
  nodes_ = std::move(nodes);
}

bool remoting::is_own(const caf::strong_actor_ptr& handle) const noexcept {
  return handle->home_system == system_ && handle->node() == system_->node();
}

// ---- Handles crossing the border
// --------------------------------------------------------------------

void remoting::write_handle(encoder& out, const caf::strong_actor_ptr& handle, transport::rank_t to,
                            std::vector<written_handle>& written) {
  if (!handle) {
    out.put(handle_form::null);
    return;
  }
  if (handle->home_system != system_)
    throw encode_error("an actor handle of another node of this process cannot be sent from " +
                       name_of_(out_.self().rank) + ": handles travel in messages only");
  if (is_own(handle)) {
    exports_->grant(handle, to);
    written.push_back({.granted = handle->id()});
    out.put(handle_form::own);
    out.put(handle->id());
    return;
  }
  caf::strong_actor_ptr proxy = handle;
  auto* remote = dynamic_cast<remote_actor*>(handle->get());
  if (!remote) {
    // The sender of a request: the handle that lasts is another one.
    proxy = nullptr;
    for (transport::rank_t rank = 0; rank < nodes_.size() && !proxy; ++rank)
      if (nodes_[rank] == handle->node() && handle->id() != 0)
        proxy = proxy_of(rank, handle->id(), false);
    remote = proxy ? dynamic_cast<remote_actor*>(proxy->get()) : nullptr;
    if (!remote) throw encode_error("this kind of actor handle cannot be sent");
  }
  std::uint64_t pin = 0;  // none when its owner is lost, who would have it unpinned
  {
    std::lock_guard guard(mutex_);
    if (!lost_.contains(remote->rank())) {
      pin = ++last_pin_;
      pins_.emplace(pin, std::pair(to, proxy));
    }
  }
  if (pin != 0) written.push_back({.pin = pin});
  out.put(handle_form::passed_on);
  out.put(handle->id());
  out.put(remote->rank());
  out.put(pin);
}

void remoting::take_back(const std::vector<written_handle>& written,
                         transport::rank_t from) noexcept {
  for (const auto& handle : written) {
    if (handle.granted != 0) exports_->release(handle.granted, from, 1);
    if (handle.pin != 0) unpin(handle.pin);
  }
}

void remoting::unpin(std::uint64_t pin) {
  caf::strong_actor_ptr last;  // dropped outside of the lock
  std::lock_guard guard(mutex_);
  auto place = pins_.find(pin);
  if (place == pins_.end()) return;
  last = std::move(place->second.second);
  pins_.erase(place);
}

caf::strong_actor_ptr remoting::read_handle(decoder& in, transport::rank_t from) {
  const auto self = out_.self().rank;
  switch (in.get<handle_form>()) {
    case handle_form::null: return nullptr;
    case handle_form::own: {
      auto id = in.get<caf::actor_id>();
      if (from != self) return proxy_of(from, id, true);
      auto actor = exports_->find(id);
      exports_->release(id, self, 1);
      return actor;
    }
    case handle_form::passed_on: {
      auto id = in.get<caf::actor_id>();
      auto owner = in.get<transport::rank_t>();
      auto pin = in.get<std::uint64_t>();
      if (owner >= nodes_.size())
        throw decode_error("a handle names rank " + std::to_string(owner) + " of " +
                           std::to_string(nodes_.size()));
      if (owner == self) {
        auto actor = exports_->find(id);
        send_control(from, control::unpin, pin);
        return actor;
      }
      auto proxy = proxy_of(owner, id, true);
      send_control(owner, control::claim, id, from, pin);
      return proxy;
    }
  }
  throw decode_error("a handle of unknown form");
}

caf::strong_actor_ptr remoting::proxy_of(transport::rank_t owner, caf::actor_id id, bool granted) {
  caf::strong_actor_ptr proxy;
  bool lost = false;
  {
    std::lock_guard guard(mutex_);
    auto& known = proxies_[{owner, id}];
    proxy = caf::actor_cast<caf::strong_actor_ptr>(known);
    if (!proxy) {
      caf::actor_config config;
      proxy = caf::make_actor<remote_actor, caf::strong_actor_ptr>(
          id, nodes_[owner], system_, config, shared_from_this(), owner);
      known = caf::actor_cast<caf::weak_actor_ptr>(proxy);
      lost = lost_.contains(owner);
    }
    if (granted) static_cast<remote_actor*>(proxy->get())->grants_.fetch_add(1);
  }
  if (lost) static_cast<remote_actor*>(proxy->get())->kill_proxy(nullptr, to_caf(loss_of(owner)));
  return proxy;
}

fault remoting::loss_of(transport::rank_t peer) const {
  fault why;
  why.code = errc::peer_lost;
  why.node = name_of_(peer);
  why.text = "the actor's node is gone";
  return why;
}

// Those who watch the actor do so without a handle now.
void remoting::gone(remote_actor& proxy) {
  const key name{proxy.rank(), proxy.id()};
  const bool watched = proxy.attachables_head_ != nullptr;
  bool lost = false;
  {
    std::lock_guard guard(mutex_);
    auto place = proxies_.find(name);
    // A new handle may have taken the place already.
    if (place != proxies_.end() && place->second.get() == proxy.ctrl()) proxies_.erase(place);
    lost = lost_.contains(name.rank);
    if (watched && !lost) append(orphans_[name], std::move(proxy.attachables_head_));
  }
  if (watched && lost) {
    tell(proxy.attachables_head_, to_caf(loss_of(name.rank)), nullptr);
    return;
  }
  // Once more: the end may have come while there was neither handle nor orphan.
  if (watched) send_control(name.rank, control::watch, name.id);
  if (auto grants = proxy.grants_.load())
    send_control(name.rank, control::release, name.id, grants);
}

std::size_t remoting::proxies() const {
  std::lock_guard guard(mutex_);
  return proxies_.size();
}

// ---- Sending
// ----------------------------------------------------------------------------------------

// Hot path of a call through a handle. Who asks, if anybody, hears of what goes wrong.
template <class Write>
void remoting::post(const remote_actor& target, pending_request&& pending,
                    const Write& write) noexcept {
  const auto to = target.rank();
  const bool asks = static_cast<bool>(pending);
  std::uint64_t request = 0;
  fault why;
  gate::pass pass(gate_);
  try {
    if (!pass) throw not_initialized("the node has been shut down");
    envelope_header header;
    header.kind = envelope_kind::actor_message;
    header.target = target.id();
    border handles(*this, to);
    letter text(&handles);
    write(text.body(), header);
    pending.peer = to;
    if (asks) header.request = request = expect(std::move(pending));
    out_.send(to, target.id(), header, &text);
    handles.sent();
    return;
  } catch (...) {
    why = unreadable();
  }
  if (why.node.empty()) why.node = name_of_(to);
  // Unless somebody else has answered it already.
  if (request != 0) pending = requests_.take(request, to);
  if (pending)
    answer(std::move(pending), std::move(why), nullptr);
  else if (!asks && why.code != errc::peer_lost && why.code != errc::not_initialized)
    log().error("a message to actor {} on {} was not sent: {}", target.id(), why.node, why.text);
}

void remoting::forward(remote_actor& target, caf::mailbox_element_ptr letter) {
  auto& element = *letter;
  pending_request pending;
  if (element.mid.is_request()) {
    pending.sender = std::move(element.sender);
    pending.mid = element.mid;
  }
  const auto& sender = pending.sender ? pending.sender : element.sender;
  post(target, std::move(pending), [&](encoder& out, envelope_header& header) {
    header.urgent = element.mid.is_urgent_message();
    if (sender && sender->id() != 0 && is_own(sender)) {
      exports_->know(sender);
      header.sender = sender->id();
    }
    out.put(static_cast<const caf::message&>(element.move_content_to_message()));
  });
}

void remoting::request(const remote_actor& target, void (*write)(encoder&, const void*),
                       const void* how, pending_request&& pending) noexcept {
  post(target, std::move(pending), [&](encoder& out, envelope_header&) { write(out, how); });
}

std::uint64_t remoting::expect(pending_request&& pending) {
  const bool limited = pending.limit.count() > 0;
  if (limited) pending.deadline = deadline_after(pending.limit);
  const auto deadline = pending.deadline;
  const auto id = requests_.add(std::move(pending));
  if (limited) engine_->set_timer(deadline);
  return id;
}

void remoting::reply(transport::rank_t to, std::uint64_t order, std::uint64_t request,
                     const caf::message& answer) noexcept {
  gate::pass pass(gate_);
  if (!pass) return;
  try {
    border handles(*this, to);
    letter text(&handles);
    text.body().put(answer);
    envelope_header header;
    header.kind = envelope_kind::response;
    header.target = request;
    out_.send(to, order, header, &text);
    handles.sent();
  } catch (const troupe::peer_lost&) {
    // Nobody is left to hear it.
  } catch (...) {
    auto why = unreadable();
    if (why.node.empty()) why.node = name_of_(out_.self().rank);
    out_.send_fault(to, order, request, why);
  }
}

template <class... Ts>
void remoting::send_control(transport::rank_t to, const Ts&... xs) noexcept {
  gate::pass pass(gate_);
  if (!pass) return;
  try {
    letter text(nullptr);
    (text.body().put(xs), ...);
    out_.send(to, 0, {}, &text);
  } catch (const std::exception&) {
    // The peer is gone: `peer_lost` settles what this was about.
  }
}

void remoting::watch(remote_actor& target) {
  send_control(target.rank(), control::watch, target.id());
}

// ---- Receiving
// --------------------------------------------------------------------------------------

void remoting::deliver(opened_envelope& message, transport::rank_t from,
                       caf::execution_unit* unit) {
  switch (message.header().kind) {
    case envelope_kind::actor_message: return deliver_to_actor(message, from, unit);
    case envelope_kind::response:
    case envelope_kind::failure: return deliver_answer(message, from, unit);
    case envelope_kind::control: return deliver_control(message, from, unit);
    case envelope_kind::call: break;
  }
  throw decode_error("a call is not for an actor");
}

// Hot path of a call through a handle, at the callee.
void remoting::deliver_to_actor(opened_envelope& message, transport::rank_t from,
                                caf::execution_unit* unit) {
  const auto& header = message.header();
  try {
    border handles(*this, from);
    decoder in(message.body(), message.tensors(), &handles);
    auto content = in.get<caf::message>();
    in.expect_end();
    auto target = exports_->find(header.target);
    if (!target) {
      fault why;
      why.code = errc::actor_down;
      why.node = name_of_(out_.self().rank);
      why.text = "actor " + std::to_string(header.target) + " has ended";
      if (header.request != 0) out_.send_fault(from, header.sender, header.request, why);
      return;
    }
    caf::strong_actor_ptr sender;
    caf::message_id mid;
    if (header.request != 0) {
      caf::actor_config config;
      sender = caf::make_actor<reply_address, caf::strong_actor_ptr>(
          header.sender, nodes_[from], system_, config, shared_from_this(), from, header.request);
      mid = caf::message_id(header.request & 0xffffffff).with_normal_priority();
    } else if (header.sender != 0) {
      sender = proxy_of(from, header.sender, false);
    }
    if (header.urgent) mid = mid.with_high_priority();
    target->enqueue(caf::make_mailbox_element(std::move(sender), mid, {}, std::move(content)),
                    unit);
  } catch (...) {
    if (header.request == 0) throw;
    auto why = unreadable();
    why.node = name_of_(out_.self().rank);
    out_.send_fault(from, header.sender, header.request, why);
  }
}

// Hot path of the answer.
void remoting::deliver_answer(opened_envelope& message, transport::rank_t from,
                              caf::execution_unit* unit) {
  const auto& header = message.header();
  auto request = requests_.take(header.target, from);
  if (!request) return;  // late: its call has timed out
  if (header.kind == envelope_kind::failure) {
    fault why;
    try {
      why = message.why();
    } catch (const decode_error& e) {
      why = e.fault();
    }
    if (why.function.empty()) why.function = request.function;
    answer(std::move(request), std::move(why), unit);
  } else if (request.sink) {
    request.sink->on_value(message);
  } else {
    caf::message content;
    try {
      border handles(*this, from);
      decoder in(message.body(), message.tensors(), &handles);
      content = in.get<caf::message>();
      in.expect_end();
    } catch (...) {
      answer(std::move(request), unreadable(), unit);
      return;
    }
    request.sender->enqueue(
        caf::make_mailbox_element(nullptr, request.mid.response_id(), {}, std::move(content)),
        unit);
  }
}

void remoting::answer(pending_request&& request, fault&& why, caf::execution_unit* unit) {
  if (request.sink)
    request.sink->on_fault(std::move(why));
  else if (request.sender)
    request.sender->enqueue(caf::make_mailbox_element(nullptr, request.mid.response_id(), {},
                                                      caf::make_message(to_caf(why))),
                            unit);
}

void remoting::deliver_control(opened_envelope& message, transport::rank_t from,
                               caf::execution_unit* unit) {
  border handles(*this, from);
  decoder in(message.body(), nullptr, &handles);
  switch (in.get<control>()) {
    case control::watch: {
      auto id = in.get<caf::actor_id>();
      auto tell = [weak = weak_from_this(), id, from](const caf::error& reason) {
        if (auto self = weak.lock()) self->send_control(from, control::down, id, reason);
      };
      if (auto actor = exports_->find(id)) {
        actor->get()->attach_functor(tell);
      } else {
        fault why;
        why.code = errc::actor_down;
        why.node = name_of_(out_.self().rank);
        why.text = "the actor had ended before";
        tell(to_caf(why));
      }
      break;
    }
    case control::down: {
      auto id = in.get<caf::actor_id>();
      auto reason = in.get<caf::error>();
      caf::strong_actor_ptr proxy;
      caf::attachable_ptr orphans;
      {
        std::lock_guard guard(mutex_);
        auto place = proxies_.find({from, id});
        if (place != proxies_.end()) proxy = caf::actor_cast<caf::strong_actor_ptr>(place->second);
        if (auto left = orphans_.extract({from, id})) orphans = std::move(left.mapped());
      }
      tell(orphans, reason, unit);
      if (proxy) static_cast<remote_actor*>(proxy->get())->kill_proxy(unit, std::move(reason));
      break;
    }
    case control::release: {
      auto id = in.get<caf::actor_id>();
      auto count = in.get<std::uint32_t>();
      exports_->release(id, from, std::min(count, max_release));
      break;
    }
    case control::claim: {
      auto id = in.get<caf::actor_id>();
      auto holder = in.get<transport::rank_t>();
      auto pin = in.get<std::uint64_t>();
      if (holder >= nodes_.size()) throw decode_error("a claim names an unknown rank");
      if (auto actor = exports_->find(id)) exports_->grant(actor, from);
      send_control(holder, control::unpin, pin);
      break;
    }
    case control::unpin: {
      unpin(in.get<std::uint64_t>());
      break;
    }
    default: throw decode_error("a control message of unknown kind");
  }
}

// ---- Ends
// -------------------------------------------------------------------------------------------

std::size_t remoting::peer_lost(transport::rank_t peer, const std::string& reason) {
  fault why;
  why.code = errc::peer_lost;
  why.node = name_of_(peer);
  why.text = "lost " + why.node + ": " + reason;
  std::vector<caf::strong_actor_ptr> proxies;
  // Dropped outside of the lock.
  std::vector<std::pair<transport::rank_t, caf::strong_actor_ptr>> pinned;
  std::vector<caf::attachable_ptr> orphans;
  {
    std::lock_guard guard(mutex_);
    lost_.insert(peer);
    for (auto& [name, weak] : proxies_)
      if (name.rank == peer)
        if (auto proxy = caf::actor_cast<caf::strong_actor_ptr>(weak)) proxies.push_back(proxy);
    orphans = take_out(orphans_, [&](const auto& entry) { return entry.first.rank == peer; });
    pinned = take_out(pins_, [&](const auto& entry) {
      const auto& [holder, proxy] = entry.second;
      return holder == peer || static_cast<remote_actor*>(proxy->get())->rank() == peer;
    });
  }
  auto requests = requests_.take_peer(peer);
  const auto failed = requests.size();
  for (auto& request : requests) {
    auto told = why;
    told.function = request.function;
    answer(std::move(request), std::move(told), nullptr);
  }
  for (auto& proxy : proxies)
    static_cast<remote_actor*>(proxy->get())->kill_proxy(nullptr, to_caf(why));
  for (auto& watchers : orphans) tell(watchers, to_caf(why), nullptr);
  exports_->release_all(peer);
  return failed;
}

void remoting::close() {
  gate_.close();
  gate_.wait_until_empty();
}

void remoting::fail_pending(const fault& why) {
  for (auto& request : requests_.take_all()) answer(std::move(request), fault(why), nullptr);
  decltype(pins_) pins;
  {
    std::lock_guard guard(mutex_);
    pins.swap(pins_);
  }
  exports_->clear();
}

}  // namespace troupe
