#include "apps/cartpole/observer.hpp"

#include <caf/scoped_actor.hpp>
#include <memory>

#include "apps/cartpole/episode.hpp"
#include "apps/cartpole/state_tensor.hpp"
#include "messages/error.hpp"

namespace cartpole {

namespace {

// Sends `question` to `policy` and hands the answer to `take`, when it has come.
template <class Message, class Take>
void ask(caf::scoped_actor& waiter, const agent& policy, Message question, Take take) {
  waiter->request(policy, caf::infinite, std::move(question))
      .receive(take, [&](const caf::error& why) {
        throw troupe::actor_down("the agent gave no answer: " + waiter->system().render(why));
      });
}

}  // namespace

observer::behavior_type observe(observer::pointer self, agent policy, std::uint32_t id,
                                std::uint64_t seed) {
  const auto world = std::make_shared<environment>(seed);
  return {
      [=](const run_episode& asked) {
        caf::scoped_actor waiter(self->system());
        return play_episode(
            *world, asked.max_steps,
            [&](const observation& seen) {
              std::int64_t action = 0;
              ask(waiter, policy, select_action{id, to_tensor(seen)},
                  [&](std::int64_t answer) { action = answer; });
              return action;
            },
            [&](double reward) {
              ask(waiter, policy, report_reward{id, reward}, [] {});
            });
      },
  };
}

}  // namespace cartpole
