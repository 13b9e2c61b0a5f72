#pragma once

// Nodes, calls, actors, futures, rrefs. Autograd, optimizers, modules, stubs, stores, profiling and
// simulation have headers of their own.

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/rref/register_function.hpp"
