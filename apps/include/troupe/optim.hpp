#pragma once

// Optimizers of libtorch over the parameters of several nodes, and some that libtorch lacks.
#include "optim/adadelta.hpp"
#include "optim/adamax.hpp"
#include "optim/distributed_optimizer.hpp"
#include "optim/nadam.hpp"
#include "optim/rprop.hpp"
