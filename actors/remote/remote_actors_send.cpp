// What leaves for actors of other nodes, and the answers of those of this one.
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/remote/outgoing_message.hpp"
#include "troupe/actors/remote/remote_actors_internal.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

// For a message, whose sender gets no error.
void say_unsent(const actor_proxy& target, const fault& why) {
  if (why.code != errc::peer_lost && why.code != errc::not_initialized)
    log().error("a message to actor {} on {} was not sent: {}", target.id(),
                target.home().info.name, why.text);
}

}  // namespace

// Hot path of a call through a handle. Errors go to the requester, if there is one.
template <class Write>
std::uint64_t remote_actors::post(const actor_proxy& target, pending_request&& pending,
                                  std::string_view message, const Write& write) noexcept {
  peer& to = target.home();
  const bool asks = static_cast<bool>(pending);
  std::uint64_t request = 0;
  fault why;
  gate::pass pass(entrance());
  try {
    forked::check();
    if (!pass) throw not_initialized("the node has been shut down");
    envelope_header header;
    header.kind = envelope_kind::actor_message;
    header.urgent = pending.urgent;
    header.target = target.id();
    if (asks) pending.context = detail::current_context();
    detail::outgoing_message out(as_sender(), to, pending.context);
    write(out.body(), header);
    out.finish(header);
    if (!asks)
      header.unrecorded = lost_.check_message(contexts_, to, message, out.tensors());
    else if (!out.in_context())
      lost_.check_request(contexts_, to, message, out.tensors());
    pending.peer = to.rank();
    // Nobody would get an error about a message without an answer.
    send_wait how{!asks || (pending.wait && senders_wait_), never, pending.limit};
    if (asks) {
      if (pending.limit.count() > 0)
        pending.deadline = how.deadline = deadline_after(pending.limit);
      header.limit = limit_in(pending.limit);
      header.request = request = expect(std::move(pending));
    }
    out.send(target.id(), header, how);
    return request;
  } catch (...) {
    why = unreadable();
  }
  if (why.node.empty()) why.node = to.info.name;
  // Unless somebody else has answered it already.
  if (request != 0) pending = requests_->take(request, to.rank());
  if (pending)
    answer(std::move(pending), std::move(why), nullptr);
  else if (!asks && !forked::from_nodes())
    say_unsent(target, why);
  return 0;
}

void remote_actors::forward(actor_proxy& target, caf::mailbox_element_ptr what) {
  auto& element = *what;
  pending_request pending;
  if (element.mid.is_request()) {
    detail::note_asked(element.sender, element.mid);  // CAF's own limit may end it
    pending.sender = std::move(element.sender);
    pending.mid = element.mid;
  }
  const auto& sender = pending.sender ? pending.sender : element.sender;
  // The name is looked up only where an error may need it.
  std::string_view message;
  if (detail::lost_gradients::possible(contexts_)) {
    message = name_of(element);
    pending.watched = pending && detail::current_context() == 0;
    if (pending.watched) pending.function = message;
  }
  post(target, std::move(pending), message, [&](encoder& out, envelope_header& header) {
    header.urgent = element.mid.is_urgent_message();
    if (sender && sender->id() != 0 && is_own(sender)) {
      exports_->know(sender);
      header.sender = sender->id();
    }
    out.put(static_cast<const caf::message&>(element.move_content_to_message()));
  });
}

std::uint64_t remote_actors::request(const actor_proxy& target, function_ref<void(encoder&)> write,
                                     pending_request pending) noexcept {
  const auto message = pending.function;
  return post(target, std::move(pending), message,
              [&](encoder& out, envelope_header&) { write(out); });
}

void remote_actors::send_message(const actor_proxy& target, std::string_view message, bool urgent,
                                 bool wait, function_ref<void(encoder&)> write) {
  forked::check();
  bool lost = false;
  try {
    gate::pass pass(entrance());
    if (!pass) throw not_initialized("the node has been shut down");
    peer& to = target.home();
    envelope_header header;
    header.kind = envelope_kind::actor_message;
    header.urgent = urgent;
    header.target = target.id();
    detail::outgoing_message out(as_sender(), to, 0);
    write(out.body());
    lost = true;
    header.unrecorded = lost_.check_message(contexts_, to, message, out.tensors());
    lost = false;
    out.send(target.id(), header, {.wait = wait});
  } catch (...) {
    if (!wait || lost) throw;
    say_unsent(target, unreadable());
  }
}

void remote_actors::reply(peer& to, std::uint64_t order, std::uint64_t request,
                          const detail::message_tag& asked, const caf::message& answer) noexcept {
  if (forked::from_nodes()) forked::end_handler("a handler of " + own_name());
  gate::pass pass(entrance());
  if (!pass) return;
  try {
    const bool failed = answer.match_elements<caf::error>();
    if (failed) {
      // Sent as a fault, so that the asker can add what it has asked.
      auto why = to_fault(answer.get_as<caf::error>(0));
      if (why.code == errc::actor_down) {
        if (why.node.empty()) why.node = own_name();
        return out_.send_fault(to, order, request, why);
      }
    }
    detail::outgoing_message out(as_sender(), to, failed ? detail::message_tag() : asked);
    out.body().put(answer);
    envelope_header header;
    header.kind = envelope_kind::response;
    header.target = request;
    out.finish(header);
    out.send(order, header);
  } catch (const troupe::peer_lost&) {
    // Nobody is left to get it.
  } catch (...) {
    auto why = unreadable();
    if (why.node.empty()) why.node = own_name();
    out_.send_fault(to, order, request, why);
  }
}

void remote_actors::reply_dropped(peer& to, std::uint64_t order, std::uint64_t request) noexcept {
  gate::pass pass(entrance());
  if (!pass) return;  // the node has been shut down
  fault why;
  why.code = errc::remote_error;
  why.type = "troupe::broken_promise";
  why.text = "the handler dropped the request without an answer";
  why.node = own_name();
  out_.send_fault(to, order, request, why);
}

void remote_actors::send_signal(transport::rank_t to, flow_control::signal what,
                                std::uint64_t first, std::uint64_t second) noexcept {
  if (auto* there = peers_.find(to); there && there->live())
    send_control(*there, control::window, what, first, second);
}

void remote_actors::watch(actor_proxy& target) {
  send_control(target.home(), control::watch, target.id());
}

}  // namespace troupe
