#pragma once

#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct keep_one {
  counter whom;
};
TROUPE_MESSAGE_EXTERN(keep_one, whom)
struct keep_two {
  counter first;
  counter second;
};
TROUPE_MESSAGE_EXTERN(keep_two, first, second)
struct drop_all {};
TROUPE_MESSAGE_EXTERN(drop_all)

/// Keeps the handles of `keep_one` until `drop_all`, and answers how many it has; never those of
/// `keep_two`.
using keeper = actor<answers<keep_one, int>, answers<keep_two, int>, answers<drop_all>>;

keeper::behavior_type keep_them(keeper::pointer self);

}  // namespace troupe::test
