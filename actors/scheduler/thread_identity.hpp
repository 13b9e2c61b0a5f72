#pragma once

namespace caf {
class scheduled_actor;
}

namespace troupe {

class engine;
class engine_unit;
class expected_calls;
class foreign_run_scope;
class wait_context;

/// What the calling thread is to the engine that it belongs to. A thread of the program belongs to
/// none.
struct thread_identity {
  engine* owner = nullptr;
  engine_unit* unit = nullptr;
  wait_context* place = nullptr;             ///< where it waits for what no network brings
  bool may_block = true;                     ///< it runs a handler, or code of the program
  const expected_calls* expected = nullptr;  ///< which it runs itself while it waits
  const foreign_run_scope* runs = nullptr;   ///< on behalf of which engines it runs, latest first
  engine_unit* host = nullptr;            ///< with which it waits, while it runs an expected call
  caf::scheduled_actor* actor = nullptr;  ///< that it runs for the engine; nullptr: none
};
inline constinit thread_local thread_identity self;

}  // namespace troupe
