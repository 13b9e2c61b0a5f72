#pragma once

#include "troupe/actors/scheduler/engine.hpp"

namespace caf {
class scheduled_actor;
}

namespace troupe {

/// What the calling thread is to the engine it belongs to. A thread of the program belongs to none.
struct thread_identity {
  engine* owner = nullptr;
  engine_unit* unit = nullptr;
  wait_context* place = nullptr;            ///< where it waits for what no network brings
  bool may_block = true;                     ///< it runs a handler, or code of the program
  const expected_calls* expected = nullptr;  ///< which it runs itself while it waits
  const engine::foreign_run_scope* foreign_run_scope = nullptr;      ///< whose work it runs, the latest one's first
  engine_unit* host = nullptr;               ///< with which it waits, while it runs one of those
  caf::scheduled_actor* actor = nullptr;     ///< that it runs for the engine; nullptr: none
};
inline constinit thread_local thread_identity self;

}  // namespace troupe
