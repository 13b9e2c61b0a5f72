#pragma once

// Typed actors, called like modules.
#include "actors/actor_stub.hpp"
