// The messages of shards: their code, compiled once.

#include "troupe/optim/shard/shard_messages.hpp"

#include "troupe/optim/shard/closure_evaluator.hpp"

namespace troupe {

TROUPE_MESSAGE_CODE(optimizer_settings)

namespace detail {

TROUPE_MESSAGE_CODE(parameter_place)
TROUPE_MESSAGE_CODE(shard_plan)
TROUPE_MESSAGE_CODE(rate_of_group)
TROUPE_MESSAGE_CODE(learning_rates)
TROUPE_MESSAGE_CODE(take_step)
TROUPE_MESSAGE_CODE(take_closure_step)
TROUPE_MESSAGE_CODE(set_rates)
TROUPE_MESSAGE_CODE(get_state)
TROUPE_MESSAGE_CODE(put_state)
TROUPE_MESSAGE_CODE(shard_handle)
TROUPE_MESSAGE_CODE(evaluated_loss)

}  // namespace detail

}  // namespace troupe
