#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// Why the open file or folder `fd`, which should be of `type` (S_IFREG, S_IFDIR), is not private
/// to this user; empty if it is: the user owns it, and its mode gives others no access.
std::string not_private(int fd, mode_t type);

/// A folder that only this user can read and write, or the reason `why` there is none. What is no
/// folder, a link, or owned by another user is refused.
struct private_folder {
  unique_fd fd;
  std::string why;

  /// Opens the folder. With `make` it is made with mode 0700 if it does not exist.
  static private_folder open(const std::filesystem::path& path, bool make);
};

}  // namespace troupe::transport
