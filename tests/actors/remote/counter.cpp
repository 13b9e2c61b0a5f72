#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

TROUPE_MESSAGE_CODE(add)
TROUPE_MESSAGE_CODE(total)
TROUPE_MESSAGE_CODE(where)
TROUPE_MESSAGE_CODE(note)
TROUPE_MESSAGE_CODE(leave)

}  // namespace troupe::test
