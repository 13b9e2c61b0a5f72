#include "troupe/actors/remote/answer_state.hpp"

#include "troupe/actors/remote/incoming_message.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::detail {

question_to_peer::question_to_peer(remote_actors& actors, peer& from,
                                   std::string_view asked) noexcept
    : actors_(actors),
      peer_(from),
      name_asked_(asked),
      watched_(current_context() == 0 && lost_gradients::possible(actors.contexts())) {}

const std::shared_ptr<engine>& question_to_peer::driver_of(const remote_actors& actors) noexcept {
  return actors.driver();
}

void question_to_peer::awaited(bool begins) const noexcept {
  actors_.flow()->awaited(peer_, begins);
}

bool question_to_peer::name_callee(const future_core& answer, fault& why) const {
  return !answer.ready() && answer.driver()->run_if_open([&] { why.node = peer_.info.name; });
}

void question_to_peer::tell_callee(const future_core& answer, std::uint64_t request) const {
  answer.driver()->run_if_open([&] { actors_.cancel(peer_, request); });
}

question question_to_peer::identity() const noexcept {
  const auto& self = actors_.out().self();
  return {{self.rank, self.incarnation}, incarnation_of(peer_), request_, actor_};
}

void question_to_peer::take_apart(future_core& answer, opened_envelope& message,
                                  function_ref<void(decoder&, handle_scope&)> read) const noexcept {
  try {
    incoming_message in(actors_, actors_.contexts(), message, peer_);
    try {
      in.check_context();
      if (watched_) actors_.lost().check_answer(actors_.contexts(), peer_, name_asked_, message);
    } catch (const decode_error&) {
      throw;
    } catch (const error&) {
      answer.set_exception(std::current_exception());
    }
    const stream_scope devices(in.copies());
    read(in.body(), in.handles());  // also of what is refused: references and handles may be in it
  } catch (...) {
    answer.set_exception(std::current_exception());
  }
}

}  // namespace troupe::detail
