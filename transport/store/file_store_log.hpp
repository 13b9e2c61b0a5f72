#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// The file behind a `file_store`: records that are only appended, and the locks on it. Not
/// thread-safe within the process.
///
/// Layout: magic and version (8 bytes), a random nonce (24), the secret (32) if the process that
/// started the file had to make one, else zeros, a proof of the secret over all that (32); then
/// records of a length (8, little-endian), a proof over nonce, offset and content (32), and the
/// content. Locks are open-file-description byte ranges far behind the end: one for each operation,
/// and one that all processes that have the file open share.
class file_store_log {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// See file_store.
  file_store_log(std::filesystem::path path, const std::optional<job_secret>& secret,
                 time_point deadline);

  /// Removes the file if no other process has it open. Another file that has taken its path is left
  /// alone.
  ~file_store_log();

  file_store_log(const file_store_log&) = delete;
  file_store_log& operator=(const file_store_log&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  const job_secret& secret() const noexcept { return secret_; }

  /// Whether both have the same file open, since the same time.
  bool is_one_with(const file_store_log& other) const noexcept { return nonce_ == other.nonce_; }

  /// While it exists, no other process appends (`writing`), or starts to append.
  class guard {
  public:
    guard(file_store_log& log, bool writing, time_point deadline);
    ~guard();
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

  private:
    file_store_log& log_;
  };

  /// Calls `use` with the content of each record that has not been read yet. Needs a guard.
  void read_new(const std::function<void(std::span<const std::byte>)>& use);

  /// Adds a record, which counts as read. Needs a guard for writing, after `read_new`.
  void append(std::span<const std::byte> content);

  /// From now on no record counts as read.
  void start_over() noexcept;

  /// Whether the file has grown since `read_new`. Needs no guard; may be late on a network file
  /// system.
  bool has_grown() const;

private:
  bool try_open();
  bool is_there() const;
  void start_afresh();
  void check_header();
  bool lock(std::int64_t range, short type);
  void lock_until(std::int64_t range, short type, time_point deadline);
  store::bytes transcript(std::uint64_t offset, std::span<const std::byte> content) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  bool read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  std::uint64_t file_size() const;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_errno(const char* what) const;

  const forked::home home_;
  std::filesystem::path path_;
  const bool given_;  // the secret that the caller gave
  job_secret secret_;
  job_secret key_;
  unique_fd fd_;
  std::array<std::byte, 24> nonce_{};
  std::uint64_t seen_ = 0;
  bool writing_ = false;
};

}  // namespace troupe::transport
