// The messages of the states of optimizers: their code, compiled once.

#include "troupe/optim/state/optimizer_state.hpp"

#include "troupe/messages/codec/type_registration.hpp"

namespace troupe::detail {

TROUPE_MESSAGE_CODE(number_tuple)
TROUPE_MESSAGE_CODE(parameter_state)
TROUPE_MESSAGE_CODE(shard_state)
TROUPE_MESSAGE_CODE(optimizer_state)

}  // namespace troupe::detail
