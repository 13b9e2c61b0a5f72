#pragma once

// Optimizers of libtorch over the parameters of several nodes, and some that libtorch lacks.
#include "troupe/optim/algorithms/adadelta.hpp"
#include "troupe/optim/algorithms/adamax.hpp"
#include "troupe/optim/algorithms/nadam.hpp"
#include "troupe/optim/algorithms/rprop.hpp"
#include "troupe/optim/distributed_optimizer.hpp"
