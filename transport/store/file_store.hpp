#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/store_state.hpp"

namespace troupe::transport {

class file_store_log;
struct store_request;

/// A store in a file that all ranks can open: on one host, or on a file system shared by several
/// whose byte-range locks work (NFS 4 does).
///
/// Each operation takes the file's lock, reads what others have appended, and appends its own
/// change; waits poll. Every record carries a proof of the job's secret, checked before it is
/// decoded.
///
/// Leftovers: a process that has the file open holds a lock on it that the system drops when the
/// process ends, however it ends. A process that opens the file while no other has it open starts
/// it afresh, so records of an earlier run are never seen; the one that closes it last removes it.
/// A file that is not a store's is left alone.
class file_store final : public store {
public:
  /// Opens `path`, making it if need be. Throws store_error naming the path if it cannot be opened,
  /// is not a store's file, belongs to another user, is in use by a job with another secret, or
  /// stays locked for `timeout`. Without a secret, the process that starts the file makes one and
  /// keeps it in the file, so the file must be accessible to this user alone.
  file_store(const std::filesystem::path& path, const std::optional<job_secret>& secret,
             milliseconds timeout = milliseconds{30'000});
  ~file_store() override;

  /// The one given, or the one found in the file.
  const job_secret& secret();

  /// The file's path, absolute.
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Closes the file, and removes it if no other process has it open. Later calls throw
  /// store_error.
  void close();

  using store::append;
  using store::get;
  using store::multi_get;
  using store::queue_push;
  using store::queue_try_pop;
  using store::set;
  using store::wait;
  void set(const std::string& key, std::span<const std::byte> value) override;
  bytes get(const std::string& key, milliseconds timeout) override;
  void wait(std::span<const std::string> keys, milliseconds timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  void append(const std::string& key, std::span<const std::byte> value) override;
  bool delete_key(const std::string& key) override;
  std::uint64_t num_keys() override;
  std::vector<bytes> multi_get(std::span<const std::string> keys, milliseconds timeout) override;
  void multi_set(std::span<const std::string> keys, std::span<const bytes> values) override;
  void queue_push(const std::string& key, std::span<const std::byte> value) override;
  std::optional<bytes> queue_try_pop(const std::string& key, milliseconds timeout) override;
  std::uint64_t queue_len(const std::string& key) override;

private:
  class turn;

  std::vector<std::string> keys_with(const std::string& prefix) override;
  std::shared_ptr<store> make_clone() override;
  file_store_log& log();
  void refresh();
  void take_up(store_request&& change);
  void write(const store_request& change);
  // Calls `look` under the locks, again and again, until it returns true; false if it has not in
  // time.
  template <class Look>
  bool poll(milliseconds timeout, bool writing, Look&& look);

  const std::filesystem::path path_;
  const std::optional<job_secret> given_;  // the secret that the caller gave
  // Taken before the lock of the file.
  std::mutex mutex_;
  std::unique_ptr<file_store_log> log_;  // null once closed
  store_state state_;
};

}  // namespace troupe::transport
