#pragma once

// Named sets of tensors that one node updates and others read: the weights of a trainer.
#include "troupe/actors/parameters/parameter_set.hpp"
