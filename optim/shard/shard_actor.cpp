// The actor of a shard: one request after the other, but for steps that are to run side by side.

#include "troupe/optim/shard/shard_actor.hpp"

#include <unordered_map>

#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::detail {

namespace {

/// What the actor knows. Gone with the actor.
class shard_desk {
public:
  shard_desk(shard_actor::pointer self, node_core& here, std::shared_ptr<shard> what)
      : self_(self), here_(here), shard_(std::move(what)) {}

  shard& mine() const noexcept { return *shard_; }
  const std::shared_ptr<shard>& itself() const noexcept { return shard_; }

  // An actor ends with what its handler throws: the answer is an error instead.
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
    if (!shard_->steps_side_by_side())
      return answer<std::uint64_t>(how, [&] { return shard_->step(how); });
    auto promise = self_->make_response_promise<std::uint64_t>();
    const auto number = ++last_step_;
    under_way_.emplace(number, promise);
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
    auto place = under_way_.extract(how.step);
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
  std::unordered_map<std::uint64_t, caf::typed_response_promise<std::uint64_t>> under_way_;
  std::uint64_t last_step_ = 0;
};

shard_actor::behavior_type run_shard(shard_actor::pointer self, node_core* here,
                                     std::shared_ptr<shard> what) {
  const auto desk = std::make_shared<shard_desk>(self, *here, std::move(what));
  return {
      [desk](const take_step& how) { return desk->step(how); },
      [desk](const take_closure_step& how) {
        return desk->answer<at::Tensor>(how, [&] { return desk->mine().step(how); });
      },
      [desk](const set_rates& how) {
        return desk->answer<void>(how, [&] { desk->mine().use(how.rates); });
      },
      [desk](get_state what) {
        return desk->answer<shard_state>(what, [&] { return desk->mine().state(); });
      },
      [desk](const put_state& what) {
        return desk->answer<void>(what, [&] { desk->mine().put(what.state); });
      },
      [desk](get_shard) { return found_shard{desk->itself()}; },
      [desk](step_ended& how) { desk->step_has_ended(how); },
  };
}

}  // namespace

shard_actor spawn_shard(node_core& here, std::shared_ptr<shard> what) {
  return spawn_function(here, &run_shard, &here, std::move(what));
}

}  // namespace troupe::detail
