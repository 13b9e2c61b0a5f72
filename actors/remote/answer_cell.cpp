#include "troupe/actors/remote/answer_cell.hpp"

#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>

#include "troupe/actors/future/future_core.hpp"
#include "troupe/actors/remote/local_requester.hpp"
#include "troupe/actors/remote/remote_actors.hpp"

namespace troupe::detail {

local_request::local_request(const std::shared_ptr<remote_actors>& actors, std::string_view message,
                             std::chrono::milliseconds limit,
                             const std::shared_ptr<reply_sink>& sink) {
  forked::check();
  gate::pass pass(actors->entrance());
  if (!pass) throw not_initialized("the node has been shut down");
  pending_request pending;
  pending.peer = actors->out().self().rank;
  pending.function = message;
  pending.limit = limit;
  pending.sink = sink;
  id_ = actors->expect(std::move(pending));
  actors_ = actors;
}

local_request::~local_request() {
  if (forked::from_nodes()) return;
  if (auto actors = actors_.lock()) actors->requests().take(id_, actors->out().self().rank);
}

namespace {

class answer_cell final : public caf::monitorable_actor, public local_requester {
public:
  answer_cell(caf::actor_config& config, std::shared_ptr<future_core> state, answer_taker take,
              local_request&& entry, std::string_view message)
      : caf::monitorable_actor(config),
        state_(std::move(state)),
        take_(take),
        entry_(std::move(entry)),
        message_(message) {}

  ~answer_cell() override {
    if (!state_->ready())
      state_->set_exception(
          std::make_exception_ptr(remote_error("the actor dropped the request without an answer")));
  }

  // Never throws: CAF's cleanup of an actor would stop in the middle.
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    { const auto answered = std::move(entry_); }  // it is not late any more
    try {
      auto answer = what->move_content_to_message();
      take_(*state_, answer, &home_system(), message_);
    } catch (...) {
      state_->set_exception(std::current_exception());
    }
  }

  void on_cleanup(const caf::error&) override {}
  const char* name() const override { return "troupe.answer_cell"; }
  const future_core* future() const noexcept override { return state_.get(); }

private:
  const std::shared_ptr<future_core> state_;
  const answer_taker take_;
  local_request entry_;
  const std::string_view message_;
};

}  // namespace

caf::strong_actor_ptr make_answer_cell(caf::actor_system& system,
                                       std::shared_ptr<future_core> state, answer_taker take,
                                       local_request&& entry, std::string_view message) {
  caf::actor_config config;
  return caf::make_actor<answer_cell, caf::strong_actor_ptr>(
      0, system.node(), &system, config, std::move(state), take, std::move(entry), message);
}

}  // namespace troupe::detail
