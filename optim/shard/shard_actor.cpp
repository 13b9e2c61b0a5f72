// The actor of a shard. It handles one request after the other; Hogwild steps leave it and run on
// other threads of the node.

#include "troupe/optim/shard/shard_actor.hpp"

#include <unordered_map>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/codec/message_codec.hpp"
#include "troupe/optim/shard/shard.hpp"

namespace troupe::detail {

namespace {

/// The state of the actor: it lives as long.
class shard_request_handler {
public:
  shard_request_handler(shard_actor::pointer self, node_core& here, std::shared_ptr<shard> what)
      : self_(self), here_(here), shard_(std::move(what)) {}

  const std::shared_ptr<shard>& target() const noexcept { return shard_; }

  // An exception that leaves a handler would end the actor: it becomes the reply instead.
  template <class T, class Message, class Work>
  caf::result<T> answer(const Message&, const Work& work) const {
    try {
      if constexpr (std::is_void_v<T>) {
        work();
        return {};
      } else {
        return work();
      }
    } catch (...) {
      return to_error(std::current_exception(), type_name<Message>());
    }
  }

  caf::result<std::uint64_t> step(const take_step& how) {
    if (!shard_->steps_concurrently())
      return answer<std::uint64_t>(how, [&] { return shard_->step(how); });
    // The promise belongs to the actor's thread: the step's result comes back as a message.
    auto promise = self_->make_response_promise<std::uint64_t>();
    const auto number = ++last_step_;
    running_.emplace(number, promise);
    auto run = [number, how, what = shard_, me = shard_actor(self_), &here = here_] {
      step_ended end;
      end.step = number;
      try {
        end.stepped = what->step(how);
      } catch (...) {
        end.failure = to_caf(describe(std::current_exception(), here.self().name,
                                      std::string(type_name<take_step>())));
      }
      send(me, std::move(end));
    };
    future_core::run_on(here_.driver().get(), make_continuation(std::move(run)));
    return promise;
  }

  void step_has_ended(step_ended& how) {
    auto place = running_.extract(how.step);
    if (!place) return;
    if (how.failure)
      place.mapped().deliver(std::move(how.failure));
    else
      place.mapped().deliver(how.stepped);
  }

private:
  caf::error to_error(std::exception_ptr why, std::string_view message) const {
    return to_caf(describe(std::move(why), here_.self().name, std::string(message)));
  }

  const shard_actor::pointer self_;
  node_core& here_;
  const std::shared_ptr<shard> shard_;
  std::unordered_map<std::uint64_t, caf::typed_response_promise<std::uint64_t>> running_;
  std::uint64_t last_step_ = 0;
};

shard_actor::behavior_type run_shard(shard_actor::pointer self, node_core* here,
                                     std::shared_ptr<shard> what) {
  const auto handler = std::make_shared<shard_request_handler>(self, *here, std::move(what));
  return {
      [handler](const take_step& how) { return handler->step(how); },
      [handler](const take_closure_step& how) {
        return handler->answer<at::Tensor>(how, [&] { return handler->target()->step(how); });
      },
      [handler](const set_rates& how) {
        return handler->answer<void>(how,
                                     [&] { handler->target()->set_learning_rates(how.rates); });
      },
      [handler](get_state what) {
        return handler->answer<shard_state>(what, [&] { return handler->target()->state(); });
      },
      [handler](const put_state& what) {
        return handler->answer<void>(what, [&] { handler->target()->put(what.state); });
      },
      [handler](get_shard) { return found_shard{handler->target()}; },
      [handler](step_ended& how) { handler->step_has_ended(how); },
  };
}

}  // namespace

shard_actor make_shard_of(const optimizer_kind& kind, const shard_plan& plan) {
  auto& here = *current_node();
  return spawn_function(here.spawner(), &run_shard, &here,
                        std::make_shared<shard>(here, kind, plan));
}

}  // namespace troupe::detail
