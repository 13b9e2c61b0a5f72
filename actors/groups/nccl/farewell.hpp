#pragma once

namespace troupe::groups::nccl {

/// While there is one, the process does not end by `exit`, but for a few seconds at most: a thread
/// in the background ends what has to do with devices and other ranks.
class farewell {
public:
  farewell();
  ~farewell();
  farewell(const farewell&) = delete;
  farewell& operator=(const farewell&) = delete;
};

}  // namespace troupe::groups::nccl
