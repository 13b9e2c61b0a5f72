#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "troupe/transport/store/tcp/tcp_store_socket.hpp"

namespace troupe::transport {

/// Why what `fd` has open, which should be of `type` (S_IFREG, S_IFDIR), is not for this user
/// alone; empty if it is: it belongs to the user, and its mode gives nobody else anything.
std::string not_private(int fd, mode_t type);

/// A folder that only this user can read and write, or `why` there is none. What is no folder, a
/// link, or anybody else's is refused, whoever made it.
struct private_folder {
  unique_fd fd;
  std::string why;

  /// Opens the folder. With `make` it is made with mode 0700 where there is none.
  static private_folder open(const std::filesystem::path& path, bool make);
};

}  // namespace troupe::transport
