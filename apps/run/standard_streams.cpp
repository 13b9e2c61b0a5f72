#include "troupe/apps/run/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace troupe::launcher {

void open_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open takes the lowest number that is free, which is this one.
    if (open("/dev/null", O_RDWR) != fd)
      throw std::system_error(errno, std::generic_category(), "cannot open /dev/null");
  }
}

}  // namespace troupe::launcher
