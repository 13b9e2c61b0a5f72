#include "actors/mailbox_letter.hpp"

#include <caf/message_builder.hpp>
#include <caf/scheduled_actor.hpp>

#include "actors/current.hpp"
#include "actors/profiling/call_profile.hpp"
#include "actors/thread_state.hpp"
#include "messages/forked.hpp"
#include "messages/message_codec.hpp"
#include "messages/type_table.hpp"

namespace troupe {

namespace {

// The actor that this thread runs.
constinit thread_local caf::scheduled_actor* actor_at_work = nullptr;
// What that has asked; nullptr: it does not remember.
constinit thread_local detail::asked_contexts* asks_here = nullptr;

// In whose context that is.
constinit thread_local const mailbox_letter* entered_here = nullptr;

// Others look into a letter too: who sends it, through a composed actor or to another node, and a
// blocking actor, on a thread whose errand is its own.
bool is_at(const mailbox_letter& letter) noexcept {
  return actor_at_work && actor_at_work->current_mailbox_element() == &letter;
}

void turn_to(const mailbox_letter& letter, receipt& taken) {
  if (!forked::from_nodes()) return taken.settle();
  // This process has come to the end of the handler before.
  if (is_at(letter)) forked::end_handler("a handler of an actor");
}

void leave_letter() noexcept {
  entered_here = nullptr;
  detail::set_current_errand({});
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

mailbox_letter::mailbox_letter(caf::strong_actor_ptr&& from, caf::message_id id,
                               forwarding_stack&& stages, caf::message&& content,
                               std::uint64_t context, receipt&& taken, const letter_origin& origin)
    : caf::mailbox_element(std::move(from), id, std::move(stages)),
      content_(std::move(content)),
      context_(context),
      taken_(std::move(taken)),
      origin_(origin) {
  if (!content_.vals()) content_ = caf::message_builder().to_message();  // CAF looks inside
}

// Of an actor without a `message_scope`.
mailbox_letter::~mailbox_letter() {
  if (entered_here == this) leave_letter();
}

caf::type_erased_tuple& mailbox_letter::content() {
  turn_to(*this, taken_);
  if (context_ != 0 && entered_here != this && is_at(*this)) {
    entered_here = this;
    detail::set_current_errand({{}, context_});
  }
  return content_;
}

caf::message mailbox_letter::move_content_to_message() {
  turn_to(*this, taken_);
  return std::move(content_);
}

caf::mailbox_element_ptr make_letter(caf::strong_actor_ptr from, caf::message_id id,
                                     caf::message content, std::uint64_t context, receipt&& taken,
                                     const letter_origin& origin) {
  return caf::mailbox_element_ptr(new mailbox_letter(std::move(from), id, {}, std::move(content),
                                                     context, std::move(taken), origin));
}

std::string_view name_of(const caf::mailbox_element& letter) {
  const auto& content = letter.content();
  if (content.size() == 0) return "nothing";
  const auto* type = find_type(content.type(0));
  return type ? type->name : unknown_message;
}

namespace detail {

const caf::mailbox_element* message_at_work() noexcept {
  return actor_at_work ? actor_at_work->current_mailbox_element() : nullptr;
}

actor_turn::actor_turn(caf::scheduled_actor& actor) noexcept
    : before_(std::exchange(actor_at_work, &actor)),
      asked_before_(std::exchange(asks_here, nullptr)),
      entered_before_(std::exchange(entered_here, nullptr)) {
  set_current_actor(actor.id());
}

actor_turn::~actor_turn() {
  leave_letter();
  actor_at_work = before_;
  asks_here = asked_before_;
  entered_here = entered_before_;
}

message_scope::message_scope(asked_contexts& asked, const caf::mailbox_element& what) noexcept
    : asked_before_(std::exchange(asks_here, &asked)),
      entered_before_(std::exchange(entered_here, nullptr)) {
  clean_thread_state();
  if (!what.mid.is_response()) {
    if (process_is_profiled.load(std::memory_order_relaxed))
      profile_ = profiled_message::begin(what);
    return;
  }
  if (const auto context = asked.of(what.mid); context != 0) set_current_errand({{}, context});
}

message_scope::~message_scope() {
  profile_ = nullptr;
  leave_letter();
  asks_here = asked_before_;
  entered_here = entered_before_;
}

caf::mailbox_element_ptr in_senders_context(caf::mailbox_element_ptr what) {
  if (forked::from_nodes()) {
    refuse_as_forked(*what);
    return nullptr;
  }
  const auto context = current_context();
  if (context == 0 || !what->mid.is_request() || dynamic_cast<const mailbox_letter*>(what.get()))
    return what;
  note_asked(what->sender, what->mid);
  auto content = what->move_content_to_message();
  return caf::mailbox_element_ptr(new mailbox_letter(
      std::move(what->sender), what->mid, std::move(what->stages), std::move(content), context));
}

void note_asked(const caf::strong_actor_ptr& sender, caf::message_id request) {
  if (!asks_here || !sender || sender->get() != actor_at_work) return;
  if (const auto context = current_context(); context != 0) asks_here->note(request, context);
}

}  // namespace detail

}  // namespace troupe
