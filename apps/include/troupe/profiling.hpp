#pragma once

// Profiles of one thread, of all that a process is asked for, of several nodes: docs/profiling.md.
#include "actors/profiling/chrome_trace.hpp"
#include "actors/profiling/process_profile.hpp"
#include "actors/profiling/profile.hpp"
