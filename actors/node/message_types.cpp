// How the structs that any program may send are written and read.

#include "troupe/actors/node/member_event.hpp"
#include "troupe/actors/profiling/profile_event.hpp"
#include "troupe/actors/rref/rref.hpp"

namespace troupe {

TROUPE_MESSAGE_CODE(worker_info)
TROUPE_MESSAGE_CODE(profile_event)
TROUPE_MESSAGE_CODE(member_event)
TROUPE_MESSAGE_CODE(rref_id)
TROUPE_MESSAGE_CODE(get_value)

}  // namespace troupe
