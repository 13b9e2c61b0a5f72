#pragma once

// Profiles of one thread, and of all that a process serves; traces of several nodes. See
// docs/profiling.md.
#include "troupe/actors/profiling/process_profile.hpp"
#include "troupe/actors/telemetry/chrome_trace.hpp"
#include "troupe/actors/telemetry/profile.hpp"
