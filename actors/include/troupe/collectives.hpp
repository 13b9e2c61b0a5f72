#pragma once

// Process groups and their collectives: what torch.distributed has. docs/collectives.md.
#include "troupe/actors/groups/coalescing.hpp"
#include "troupe/actors/groups/collectives.hpp"
#include "troupe/actors/groups/monitored_barrier.hpp"
#include "troupe/actors/groups/object_collectives.hpp"
#include "troupe/actors/groups/point_to_point.hpp"
#include "troupe/actors/groups/process_group/actor_group.hpp"
#include "troupe/actors/groups/process_group/init_process_group.hpp"
#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/groups/symmetric_memory.hpp"
#include "troupe/actors/groups/tracing/debug_level.hpp"
#include "troupe/actors/groups/work/work.hpp"
