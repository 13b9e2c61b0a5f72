#include "troupe/transport/system/unique_fd.hpp"

#include <unistd.h>

namespace troupe::transport {

void unique_fd::reset() noexcept {
  const int mine = std::exchange(fd_, -1);
  if (mine < 0 || !home_.here())
    return;  // a child has closed it: the number may belong to another file
  forked::keep_in_children(mine);
  ::close(mine);
}

}  // namespace troupe::transport
