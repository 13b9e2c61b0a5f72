// How the messages of passes are written and read: compiled once.

#include "troupe/autograd/pass/pass_messages.hpp"

#include "troupe/actors/node/node.hpp"

namespace troupe::autograd {

TROUPE_MESSAGE_CODE(pass_options)

namespace detail {

TROUPE_MESSAGE_CODE(pass_info)
TROUPE_MESSAGE_CODE(pass_standing)
TROUPE_MESSAGE_CODE(next_step)
TROUPE_MESSAGE_CODE(step_report)
TROUPE_MESSAGE_CODE(mark_sends)
TROUPE_MESSAGE_CODE(resume)
TROUPE_MESSAGE_CODE(gradients_arrive)
TROUPE_MESSAGE_CODE(forget_pass)

}  // namespace detail

}  // namespace troupe::autograd
