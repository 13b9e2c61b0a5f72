#pragma once

#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

#include <vector>

#include "troupe/apps/cartpole/hyperparameters.hpp"
#include "troupe/apps/cartpole/messages.hpp"

namespace cartpole {

/// Owns an environment and a policy of its own, which it trains there and averages with those of
/// the other observers: together they are a group of actors.
using averaging_observer = troupe::actor<troupe::answers<begin_averaging>,                  //
                                         troupe::answers<train_and_average, round_result>,  //
                                         troupe::answers<read_parameters, std::vector<at::Tensor>>>;

/// The behaviour of observer number `id` (from 0). Its environment starts from seed + 1 + id; its
/// policy and the policy's sampling from seed + id. The policy begins with observer 0's weights.
averaging_observer::behavior_type observe_and_average(averaging_observer::pointer self,
                                                      hyperparameters chosen, std::uint32_t id);

}  // namespace cartpole
