#pragma once

// Optimizers of libtorch over the parameters of several nodes.
#include "optim/distributed_optimizer.hpp"
