#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/system/private_folder.hpp"
#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe::transport {

/// Where this user's processes on this host leave secrets for one another: in the folder "troupe"
/// of XDG_RUNTIME_DIR and of /run/user/UID, as far as these are this user's alone, in
/// /tmp/troupe-UID, which another user may have taken, and in $HOME/.cache/troupe. The first that
/// can be had is written to. All are read, so that ranks with other variables find it, unless it
/// lies in a folder that a variable names for rank 0 alone.
std::vector<std::filesystem::path> secret_folders(const environment& env);

/// The random secret of a job to which nobody has given one, in a file that this user alone can
/// read, for the job's other ranks on this host.
///
/// Whoever listens on the job's port publishes, so that there is one publisher at a time, and the
/// file is found by the port. It appears with its content (rename), and its publisher holds a lock
/// on it (flock) that ends with the process, whatever it has forked: what a killed one has left is
/// nobody's secret, and goes when the next one publishes. Other users can neither read it nor put
/// one in its place: folder and file are checked, once they are open, to be this user's alone.
class published_secret {
public:
  /// Publishes for the one who listens on `port`. Throws store_error when there is no folder for
  /// it, or another job of this user holds the port, at another address, until `deadline`.
  published_secret(const environment& env, std::uint16_t port, const job_secret& secret,
                   time_point deadline);

  /// Takes it back.
  ~published_secret();

  published_secret(const published_secret&) = delete;
  published_secret& operator=(const published_secret&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// What was published for `port` on this host by somebody who lives. Throws store_error, which
  /// names the places, if that is nothing (yet).
  static job_secret find(const environment& env, std::uint16_t port);

private:
  std::filesystem::path path_;
  unique_fd folder_;
  unique_fd file_;
  pid_t publisher_;  // a forked child takes nothing back
};

}  // namespace troupe::transport
