#pragma once

// Collectives that backward passes go through: torch.distributed.nn.functional.
#include "troupe/autograd/collectives/differentiable_collectives.hpp"
