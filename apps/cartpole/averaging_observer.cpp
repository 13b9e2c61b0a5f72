#include "troupe/apps/cartpole/averaging_observer.hpp"

#include <memory>

#include "troupe/apps/cartpole/learner.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/apps/cartpole/policy.hpp"

namespace cartpole {

namespace {

// What one observer has. Its coroutines share it.
struct own_policy {
  own_policy(const hyperparameters& chosen, std::uint32_t id)
      : agent({.seed = chosen.seed + id,
               .observers = 1,
               .gamma = chosen.gamma,
               .learning_rate = chosen.learning_rate}),
        worlds(make_environments(chosen.seed + id, 1)) {}

  // The memory of the parameters, apart from autograd: collectives write no leaf that requires
  // gradients.
  std::vector<at::Tensor> weights() {
    std::vector<at::Tensor> out;
    for (const auto& one : agent.network().parameters()) out.push_back(one.detach());
    return out;
  }

  learner agent;
  std::vector<environment> worlds;
  troupe::process_group group;
};

troupe::task<> begin(std::shared_ptr<own_policy> own, troupe::process_group group) {
  own->group = group;
  for (const auto& weight : own->weights())
    co_await troupe::broadcast(group, weight, 0, troupe::async).get_future();
}

// The thread is free while the others still play.
troupe::task<round_result> train(std::shared_ptr<own_policy> own, train_and_average asked) {
  round_result result;
  for (int episode = 0; episode < asked.episodes; ++episode) {
    const auto played = play_round(own->agent, own->worlds);
    result.last_reward += played.last_reward / asked.episodes;
    result.steps += played.steps;
  }
  co_await troupe::all_reduce_coalesced(own->group, own->weights(), troupe::reduce_op::avg,
                                        troupe::async)
      .get_future();
  co_return result;
}

}  // namespace

averaging_observer::behavior_type observe_and_average(averaging_observer::pointer self,
                                                      hyperparameters chosen, std::uint32_t id) {
  const auto own = std::make_shared<own_policy>(chosen, id);
  return {
      [=](begin_averaging asked) { return begin(own, asked.observers.join(self)); },
      [=](train_and_average asked) { return train(own, asked); },
      [=](const read_parameters&) {
        auto out = own->weights();
        for (auto& one : out) one = one.clone();
        return out;
      },
  };
}

}  // namespace cartpole
