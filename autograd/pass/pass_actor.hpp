#pragma once

#include <memory>

#include "troupe/autograd/pass/pass_messages.hpp"

namespace troupe::autograd::detail {

class pass_worker_state;

/// The behaviour of a participant's actor: runs one step of one pass after the other.
pass_actor::behavior_type run_passes(pass_actor::pointer self,
                                     std::shared_ptr<pass_worker_state> state);

}  // namespace troupe::autograd::detail
