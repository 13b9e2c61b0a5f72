#pragma once

#include <filesystem>
#include <mutex>
#include <optional>

#include "transport/job_secret.hpp"
#include "transport/store/file_store_log.hpp"
#include "transport/store/store.hpp"
#include "transport/store/store_state.hpp"

namespace troupe::transport {

/// A store in a file that all ranks can open: on one host, or on a file system shared by several
/// whose byte-range locks work (NFS 4 does).
///
/// Each operation takes the file's lock, reads what others have appended, and appends its own
/// change; waits poll. Every record carries a proof of the job's secret, checked before it is
/// decoded.
///
/// Leftovers: who has the file open holds a lock on it that the system drops when the process ends,
/// however it ends. Who opens the file when nobody else has it open starts it afresh, so records of
/// an earlier run are never seen; who closes it last removes it. A file that is not a store's is
/// left alone.
class file_store final : public store {
public:
  /// Opens `path`, making it if need be. Throws store_error naming the path if it cannot be opened,
  /// is something else than a store's file, belongs to another user, is in use by a job with
  /// another secret, or stays locked for `timeout`. Without a secret, who begins the file makes one
  /// and keeps it there for the others, so others than this user must have no access to it.
  file_store(std::filesystem::path path, const std::optional<job_secret>& secret,
             milliseconds timeout = milliseconds{30'000});
  ~file_store() override;

  /// The one given, or the one found in the file.
  const job_secret& secret() { return log().secret(); }

  /// Leaves the file, and removes it if nobody else has it open. Later calls throw store_error.
  void close();

  using store::set;
  void set(const std::string& key, std::span<const std::byte> value) override;
  bytes get(const std::string& key, milliseconds timeout = default_store_timeout) override;
  void wait(std::span<const std::string> keys,
            milliseconds timeout = default_store_timeout) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  bool delete_key(const std::string& key) override;
  std::uint64_t num_keys() override;
  bool check(std::span<const std::string> keys) override;

private:
  file_store_log& log();
  void refresh();
  void append_set(const std::string& key, std::span<const std::byte> value);

  std::mutex mutex_;
  std::optional<file_store_log> log_;  // none once closed
  store_state state_;
};

}  // namespace troupe::transport
