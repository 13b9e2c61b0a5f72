#pragma once

// Many nodes in one process on a bad network, under a seed: docs/simulation.md.
#include "actors/simulation/simulation.hpp"
