#pragma once

// Profiles of one thread, of all that a process is asked for, of several nodes: docs/profiling.md.
#include "troupe/actors/profiling/chrome_trace.hpp"
#include "troupe/actors/profiling/process_profile.hpp"
#include "troupe/actors/profiling/profile.hpp"
