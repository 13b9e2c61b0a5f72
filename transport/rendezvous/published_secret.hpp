#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/system/private_folder.hpp"

namespace troupe::transport {

/// The folders in which processes of this user on this host leave secrets for each other: the
/// folder "troupe" of XDG_RUNTIME_DIR and of /run/user/UID, as far as these are private to the
/// user, /tmp/troupe-UID, which another user may have taken, and $HOME/.cache/troupe. The first one
/// available is written to. All are read, so that ranks with other variables find the secret,
/// unless it lies in a folder that a variable names for rank 0 alone.
std::vector<std::filesystem::path> secret_folders(const environment& env);

/// The random secret of a job that was given none, in a file that this user alone can read, for the
/// job's other ranks on this host.
///
/// The process that listens on the job's port publishes it, so that there is one publisher at a
/// time, and the file is found by the port. It appears with its contents (rename), and its
/// publisher holds a lock on it (flock) that ends with the process, whatever it has forked: the
/// file of a killed publisher is ignored, and removed by the next one. Other users can neither read
/// it nor put one in its place: folder and file are checked, once they are open, to be private to
/// this user.
class published_secret {
public:
  /// Publishes for the process that listens on `port`. Throws store_error when no folder is
  /// available, or another job of this user holds the port, at another address, until `deadline`.
  published_secret(const environment& env, std::uint16_t port, const job_secret& secret,
                   std::chrono::steady_clock::time_point deadline);

  /// Takes it back.
  ~published_secret();

  published_secret(const published_secret&) = delete;
  published_secret& operator=(const published_secret&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// The secret that a live process has published for `port` on this host. Throws store_error,
  /// which names the places, if there is none (yet).
  static job_secret find(const environment& env, std::uint16_t port);

private:
  std::filesystem::path path_;
  unique_fd folder_;
  unique_fd file_;
  pid_t publisher_;  // a forked child takes nothing back
};

}  // namespace troupe::transport
