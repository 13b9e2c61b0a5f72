#pragma once

// Typed actors, called like modules.
#include "troupe/actors/remote/actor_stub.hpp"
