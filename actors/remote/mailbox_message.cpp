#include "troupe/actors/remote/mailbox_message.hpp"

#include <caf/message_builder.hpp>
#include <caf/scheduled_actor.hpp>

#include "troupe/actors/profiling/call_profile.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/node_context.hpp"
#include "troupe/actors/scheduler/torch_thread_state.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/codec/message_codec.hpp"
#include "troupe/messages/codec/type_table.hpp"

namespace troupe {

namespace {

constinit thread_local detail::actor_place place_here;

// Others look into a message too: its sender, through a composed actor or to another node, and a
// blocking actor, on a thread whose call context is its own.
bool is_at(const mailbox_message& message) noexcept {
  return place_here.actor && place_here.actor->current_mailbox_element() == &message;
}

void turn_to(const mailbox_message& message, window_credit& taken) {
  if (!forked::from_nodes()) return taken.settle();
  // This process has come to the end of the handler before.
  if (is_at(message)) forked::end_handler("a handler of an actor");
}

void leave_mailbox_message() noexcept {
  place_here.entered = nullptr;
  detail::clear_current_call_context();
}

// Nobody runs actors in a forked process.
void refuse_as_forked(const caf::mailbox_element& what) {
  if (!what.mid.is_request() || !what.sender) return;
  try {
    forked::check();
  } catch (const not_initialized& e) {
    what.sender->enqueue(nullptr, what.mid.response_id(), caf::make_message(to_caf(e.fault())),
                         nullptr);
  }
}

}  // namespace

mailbox_message::mailbox_message(caf::strong_actor_ptr&& from, caf::message_id id,
                                 forwarding_stack&& stages, caf::message&& content,
                                 std::uint64_t context, window_credit&& taken,
                                 const message_origin& origin)
    : caf::mailbox_element(std::move(from), id, std::move(stages)),
      content_(std::move(content)),
      context_(context),
      taken_(std::move(taken)),
      origin_(origin) {
  if (!content_.vals()) content_ = caf::message_builder().to_message();  // CAF looks inside
}

// Of an actor without a `message_scope`.
mailbox_message::~mailbox_message() {
  if (place_here.entered == this) leave_mailbox_message();
}

caf::type_erased_tuple& mailbox_message::content() {
  turn_to(*this, taken_);
  if (context_ != 0 && place_here.entered != this && is_at(*this)) {
    place_here.entered = this;
    detail::set_current_call_context({{}, context_});
  }
  return content_;
}

caf::message mailbox_message::move_content_to_message() {
  turn_to(*this, taken_);
  return std::move(content_);
}

caf::mailbox_element_ptr make_mailbox_message(caf::strong_actor_ptr from, caf::message_id id,
                                              caf::message content, std::uint64_t context,
                                              window_credit&& taken, const message_origin& origin) {
  return caf::mailbox_element_ptr(new mailbox_message(std::move(from), id, {}, std::move(content),
                                                      context, std::move(taken), origin));
}

std::string_view name_of(const caf::mailbox_element& message) {
  const auto& content = message.content();
  if (content.size() == 0) return "nothing";
  const auto* type = find_type(content.type(0));
  return type ? type->name : unknown_message;
}

namespace detail {

namespace {

std::uint64_t number_of(caf::message_id id) noexcept { return id.request_id().integer_value(); }

}  // namespace

void asked_contexts::note(caf::message_id request, std::uint64_t context) {
  contexts_.try_emplace(number_of(request), context);
}

std::uint64_t asked_contexts::of(caf::message_id answer) const noexcept {
  if (contexts_.empty()) return 0;
  const auto place = contexts_.find(number_of(answer));
  return place == contexts_.end() ? 0 : place->second;
}

void asked_contexts::forget(caf::message_id answer) noexcept {
  if (!contexts_.empty()) contexts_.erase(number_of(answer));
}

caf::scheduled_actor* actor_at_work() noexcept { return place_here.actor; }

const caf::mailbox_element* message_at_work() noexcept {
  return place_here.actor ? place_here.actor->current_mailbox_element() : nullptr;
}

namespace {

// nullptr: no node's handler runs here, or the message is not of a known type.
std::unique_ptr<profiled_message> profile_of_message(const caf::mailbox_element& what) noexcept {
  const auto* const node = current_node_context();
  const auto name = name_of(what);
  if (!node || name == unknown_message) return nullptr;
  const auto* const message = dynamic_cast<const mailbox_message*>(&what);
  const auto* const from = message ? message->origin().from : nullptr;
  return profiled_message::begin(name, from ? from->info : node->self(), node->self());
}

}  // namespace

// An actor that begins runs its behaviour function before its first message.
actor_turn::actor_turn(caf::scheduled_actor& actor) noexcept
    : before_(std::exchange(place_here, {&actor, nullptr, nullptr,
                                         actor.getf(caf::abstract_actor::is_initialized_flag)})) {
  set_current_actor(actor.id());
}

actor_turn::~actor_turn() {
  leave_mailbox_message();
  place_here = before_;
  place_here.thread_is_clean = false;
}

message_scope::message_scope(asked_contexts& asked, const caf::mailbox_element& what) noexcept
    : before_(std::exchange(place_here, {place_here.actor, &asked, nullptr, false})),
      collected_nothing_(!collecting::here()) {
  if (!before_.thread_is_clean) clean_thread_state();
  if (!what.mid.is_response()) {
    if (process_is_profiled.load(std::memory_order_relaxed)) profile_ = profile_of_message(what);
    return;
  }
  if (const auto context = asked.of(what.mid); context != 0)
    set_current_call_context({{}, context});
}

message_scope::~message_scope() {
  profile_ = nullptr;
  if (collected_nothing_) collecting::leave();  // a profile of a coroutine that waits now
  leave_mailbox_message();
  place_here = before_;
  place_here.thread_is_clean = false;
}

caf::mailbox_element_ptr in_senders_context(caf::mailbox_element_ptr what) {
  if (forked::from_nodes()) {
    refuse_as_forked(*what);
    return nullptr;
  }
  const auto context = current_context();
  if (context == 0 || !what->mid.is_request() || dynamic_cast<const mailbox_message*>(what.get()))
    return what;
  note_asked(what->sender, what->mid);
  auto content = what->move_content_to_message();
  return caf::mailbox_element_ptr(new mailbox_message(
      std::move(what->sender), what->mid, std::move(what->stages), std::move(content), context));
}

void note_asked(const caf::strong_actor_ptr& sender, caf::message_id request) {
  if (!place_here.asks || !sender || sender->get() != place_here.actor) return;
  if (const auto context = current_context(); context != 0) place_here.asks->note(request, context);
}

}  // namespace detail

}  // namespace troupe
