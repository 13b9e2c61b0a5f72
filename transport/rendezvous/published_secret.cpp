#include "troupe/transport/rendezvous/published_secret.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;
using std::filesystem::path;

constexpr std::string_view first_line = "troupe job secret 1\n";
constexpr const char* unfinished = "unfinished";
constexpr std::size_t hash_digits = 16;

constexpr const char* way_out =
    "or set TROUPE_JOB_SECRET to the same 64 hex digits on every rank (openssl rand -hex 32)";

// A port belongs to one program within a network namespace of a running kernel.
std::string file_name(std::uint16_t port) {
  return fmt::format("{:016x}-{}", stable_hash(this_host().network), port);
}

bool is_file_name(std::string_view name) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const auto hash = name.substr(0, hash_digits);
  return name == unfinished || (name.size() > hash_digits + 1 && name[hash_digits] == '-' &&
                                std::ranges::all_of(hash, hex));
}

unique_fd open_file(int folder, const char* name) {
  return unique_fd(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
}

// Whether the process that published `file` still lives.
bool is_held(int file) { return flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

/// While it exists, no other process publishes or takes back in the folder.
class folder_lock {
public:
  folder_lock(int folder, std::chrono::steady_clock::time_point deadline) : folder_(folder) {
    while (flock(folder_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw store_error(std::strerror(errno));
      if (std::chrono::steady_clock::now() > deadline)
        throw store_error("another process has locked it");
      std::this_thread::sleep_for(1ms);
    }
  }
  ~folder_lock() { flock(folder_, LOCK_UN); }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

private:
  const int folder_;
};

// Removes the files of killed processes. With the folder's lock: no process has just made a file
// there and not yet locked it.
void remove_leftovers(int folder) {
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(copy < 0 ? nullptr : fdopendir(copy), closedir);
  if (!list) return;
  while (const auto* entry = readdir(list.get())) {
    if (!is_file_name(entry->d_name)) continue;
    const auto file = open_file(folder, entry->d_name);
    if (file && !is_held(file.get())) unlinkat(folder, entry->d_name, 0);
  }
}

std::optional<job_secret> read_secret(int folder, const std::string& name) {
  const auto file = open_file(folder, name.c_str());
  if (!file || !not_private(file.get(), S_IFREG).empty() || !is_held(file.get())) return {};
  std::array<char, first_line.size() + 2 * job_secret::size> text;
  if (pread(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return {};
  const std::string_view all(text.data(), text.size());
  if (!all.starts_with(first_line)) return {};
  try {
    return job_secret::from_hex(all.substr(first_line.size()));
  } catch (const invalid_argument&) {
    return {};
  }
}

// Makes a locked file with the secret in it, under a name that is never looked up.
unique_fd write_secret(int folder, const job_secret& secret) {
  unlinkat(folder, unfinished, 0);
  unique_fd file(
      openat(folder, unfinished, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto text = std::string(first_line) + secret.hex();
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
      pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    throw store_error(fmt::format("cannot create a file in it: {}", std::strerror(errno)));
  return file;
}

struct open_folder {
  path where;
  unique_fd fd;
};

open_folder first_folder(const environment& env) {
  std::string tried;
  for (const auto& one : secret_folders(env)) {
    mkdir(one.parent_path().c_str(), 0700);  // a home may have no .cache yet; the others are there
    auto opened = private_folder::open(one, true);
    if (opened.fd) return {one, std::move(opened.fd)};
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", one.string(), opened.why);
  }
  throw store_error(
      fmt::format("rank 0 has no folder for the job's secret that this user alone can use ({}); "
                  "set XDG_RUNTIME_DIR to one of mode 0700, {}",
                  tried, way_out));
}

}  // namespace

std::vector<path> secret_folders(const environment& env) {
  const auto user = geteuid();
  std::vector<path> out;
  const auto add = [&](const path& runtime) {
    if (!runtime.is_absolute() || !private_folder::open(runtime, false).fd) return;
    if (const auto one = runtime / "troupe"; std::ranges::find(out, one) == out.end())
      out.push_back(one);
  };
  if (const auto runtime = env("XDG_RUNTIME_DIR")) add(*runtime);
  add(fmt::format("/run/user/{}", user));
  out.emplace_back(fmt::format("/tmp/troupe-{}", user));
  // Last, since a home may be on a network. Anybody can take the place before it, for no more than
  // the trouble.
  if (const auto home = env("HOME"); home && path(*home).is_absolute())
    out.push_back(path(*home) / ".cache" / "troupe");
  return out;
}

published_secret::published_secret(const environment& env, std::uint16_t port,
                                   const job_secret& secret,
                                   std::chrono::steady_clock::time_point deadline)
    : publisher_(getpid()) {
  auto [where, folder] = first_folder(env);
  const auto name = file_name(port);
  path_ = where / name;
  folder_ = std::move(folder);
  const auto refuse = [&](const std::string& why) {
    throw store_error(
        fmt::format("rank 0 cannot leave the job's secret in {}: {}", where.string(), why));
  };
  try {
    while (true) {
      {
        const folder_lock hold(folder_.get(), deadline);
        remove_leftovers(folder_.get());
        if (!open_file(folder_.get(), name.c_str())) {
          file_ = write_secret(folder_.get(), secret);
          if (renameat(folder_.get(), unfinished, folder_.get(), name.c_str()) != 0)
            throw store_error(std::strerror(errno));
          return;
        }
      }
      // Rank 0 has the port, but at one address of several.
      if (std::chrono::steady_clock::now() > deadline)
        throw store_error(
            fmt::format("another job of this user meets at port {} of another address of this "
                        "host; choose another MASTER_PORT, {}",
                        port, way_out));
      std::this_thread::sleep_for(5ms);
    }
  } catch (const store_error& e) {
    refuse(e.fault().text);
  }
}

published_secret::~published_secret() {
  if (getpid() != publisher_) return;
  // Best effort: a file that stays is ignored once its lock is released.
  try {
    const folder_lock hold(folder_.get(), deadline_after(1s));
    const auto name = path_.filename();
    struct stat ours {};
    struct stat there {};
    if (fstat(file_.get(), &ours) == 0 &&
        fstatat(folder_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
      unlinkat(folder_.get(), name.c_str(), 0);
  } catch (const error&) {
  }
}

job_secret published_secret::find(const environment& env, std::uint16_t port) {
  const auto name = file_name(port);
  std::string places;
  for (const auto& one : secret_folders(env)) {
    const auto folder = private_folder::open(one, false);
    if (folder.fd)
      if (const auto secret = read_secret(folder.fd.get(), name)) return *secret;
    places += fmt::format("{}{}", places.empty() ? "" : ", ", (one / name).string());
  }
  throw store_error(fmt::format(
      "no rank 0 of user {} has left the job's secret on this host ({}); start it here, "
      "as the same user and, like all ranks, without a secret, {}",
      geteuid(), places, way_out));
}

}  // namespace troupe::transport
