#pragma once

// All that programs on Troupe need.

#include "troupe/actors/node/node.hpp"
