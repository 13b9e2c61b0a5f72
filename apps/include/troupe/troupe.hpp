#pragma once

// All that programs on Troupe need.

#include "actors/node.hpp"
