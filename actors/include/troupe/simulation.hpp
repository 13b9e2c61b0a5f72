#pragma once

// Many nodes in one process on a bad network, under a seed: docs/simulation.md.
#include "troupe/actors/simulation/simulation.hpp"
