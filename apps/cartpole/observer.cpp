#include "troupe/apps/cartpole/observer.hpp"

#include <memory>

#include "troupe/apps/cartpole/episode.hpp"
#include "troupe/apps/cartpole/state_tensor.hpp"

namespace cartpole {

observer::behavior_type observe(observer::pointer, agent policy, std::uint32_t id,
                                std::uint64_t seed) {
  const auto world = std::make_shared<environment>(seed);
  return {
      [=](const run_episode& asked) {
        return play_episode(
            *world, asked.max_steps,
            [&](const observation& seen) {
              return troupe::request(policy, select_action{id, to_tensor(seen)}).get();
            },
            [&](double reward) {
              troupe::request(policy, report_reward{id, reward}).get();
            });
      },
  };
}

}  // namespace cartpole
