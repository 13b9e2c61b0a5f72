#pragma once

// Ranks in arrays of any number of dimensions, with a group for each line. docs/device_mesh.md.
#include "troupe/actors/groups/mesh/device_mesh.hpp"
