#include "troupe/apps/cartpole/messages.hpp"

namespace cartpole {

TROUPE_MESSAGE_CODE(select_action)
TROUPE_MESSAGE_CODE(report_reward)
TROUPE_MESSAGE_CODE(run_episode)
TROUPE_MESSAGE_CODE(finish_episode)
TROUPE_MESSAGE_CODE(round_result)
TROUPE_MESSAGE_CODE(begin_averaging)
TROUPE_MESSAGE_CODE(train_and_average)
TROUPE_MESSAGE_CODE(read_parameters)
TROUPE_MESSAGE_CODE(hyperparameters)

}  // namespace cartpole
