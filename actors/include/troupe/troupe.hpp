#pragma once

// All that programs on Troupe need.

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/rref/register_function.hpp"
