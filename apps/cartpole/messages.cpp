#include "troupe/apps/cartpole/messages.hpp"

namespace cartpole {

TROUPE_MESSAGE_CODE(select_action)
TROUPE_MESSAGE_CODE(report_reward)
TROUPE_MESSAGE_CODE(run_episode)
TROUPE_MESSAGE_CODE(finish_episode)
TROUPE_MESSAGE_CODE(round_result)

}  // namespace cartpole
