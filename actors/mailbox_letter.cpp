#include "actors/mailbox_letter.hpp"

#include <caf/message_builder.hpp>

#include "actors/current.hpp"
#include "actors/thread_state.hpp"
#include "messages/forked.hpp"

namespace troupe {

namespace {

// In whose context this thread is.
thread_local const mailbox_letter* entered_here = nullptr;

// A forked process has come to the end of the handler before.
void turn_to(receipt& taken) {
  if (forked::from_nodes()) forked::end_handler("a handler of an actor");
  taken.settle();
}

}  // namespace

mailbox_letter::mailbox_letter(caf::strong_actor_ptr&& from, caf::message_id id,
                               forwarding_stack&& stages, caf::message&& content,
                               std::uint64_t context, receipt&& taken)
    : caf::mailbox_element(std::move(from), id, std::move(stages)),
      content_(std::move(content)),
      context_(context),
      taken_(std::move(taken)) {
  if (!content_.vals()) content_ = caf::message_builder().to_message();  // CAF looks inside
}

// Of an actor without a `message_scope`.
mailbox_letter::~mailbox_letter() {
  if (entered_here == this) detail::leave_letter();
}

caf::type_erased_tuple& mailbox_letter::content() {
  turn_to(taken_);
  if (context_ != 0 && entered_here != this) {
    entered_here = this;
    detail::set_current_errand({{}, context_});
  }
  return content_;
}

caf::message mailbox_letter::move_content_to_message() {
  turn_to(taken_);
  return std::move(content_);
}

caf::mailbox_element_ptr make_letter(caf::strong_actor_ptr from, caf::message_id id,
                                     caf::message content, std::uint64_t context, receipt&& taken) {
  return caf::mailbox_element_ptr(
      new mailbox_letter(std::move(from), id, {}, std::move(content), context, std::move(taken)));
}

namespace detail {

message_scope::message_scope() noexcept : before_(std::exchange(entered_here, nullptr)) {
  clean_thread_state();
}

message_scope::~message_scope() {
  leave_letter();
  entered_here = before_;
}

caf::mailbox_element_ptr in_senders_context(caf::mailbox_element_ptr what) {
  const auto context = current_context();
  if (context == 0 || !(what->mid.is_request() || what->mid.is_response()) ||
      dynamic_cast<const mailbox_letter*>(what.get()))
    return what;
  auto content = what->move_content_to_message();
  return caf::mailbox_element_ptr(new mailbox_letter(
      std::move(what->sender), what->mid, std::move(what->stages), std::move(content), context));
}

void leave_letter() noexcept {
  entered_here = nullptr;
  set_current_errand({});
}

}  // namespace detail

}  // namespace troupe
