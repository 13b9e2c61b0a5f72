#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "troupe/transport/store/prefix_store.hpp"

namespace troupe::transport {

/// Collectives of `world_size` ranks that share nothing but a store: for what a job has to agree on
/// before it has nodes and process groups, and for a few bytes at a time. Each rank has an object,
/// with a store of its own or a shared one, and the same `prefix`.
///
/// All ranks give an operation the same key, which names it: each rank uses a key once, or gets
/// invalid_argument, "key 'x' has already been used". The keys stay in the store, below
/// "PREFIX/", because other ranks may still read them.
///
/// A timeout bounds the whole operation; without one, the store's own (`store::timeout`) does.
/// After it store_error names the operation, the key, the limit and the ranks that are missing. A
/// rank that calls another operation with the same key is missing, too. The key is used up then.
/// Any thread; the store's own errors pass through. The bytes of one operation are together at most
/// those of one value (max_store_value).
class store_collectives {
public:
  using bytes = store::bytes;
  using limit = std::optional<std::chrono::milliseconds>;

  /// Throws invalid_argument without a store, for an empty prefix, and if `rank` is not less than
  /// `world_size`.
  store_collectives(std::shared_ptr<store> store, const std::string& prefix, std::uint32_t rank,
                    std::uint32_t world_size);

  std::uint32_t rank() const noexcept { return rank_; }
  std::uint32_t world_size() const noexcept { return world_size_; }

  /// Returns when all ranks have called it; with `blocking` false at once, for a rank that only
  /// says that it is there. Throws store_error if this rank is there already, through another
  /// object.
  void barrier(const std::string& key, limit timeout = {}, bool blocking = true);

  /// One rank sends; the others receive. The sender does not wait.
  void broadcast_send(const std::string& key, std::span<const std::byte> data);
  bytes broadcast_recv(const std::string& key, limit timeout = {});

  /// One rank receives what all have sent, its own `data` included, by rank. The others do not
  /// wait.
  void gather_send(const std::string& key, std::span<const std::byte> data);
  std::vector<bytes> gather_recv(const std::string& key, std::span<const std::byte> data,
                                 limit timeout = {});

  /// One rank sends a value to each, and gets back its own; it does not wait. Throws
  /// invalid_argument unless there are `world_size` values.
  bytes scatter_send(const std::string& key, std::span<const bytes> data);
  bytes scatter_recv(const std::string& key, limit timeout = {});

  /// What all ranks have given, by rank.
  std::vector<bytes> all_gather(const std::string& key, std::span<const std::byte> data,
                                limit timeout = {});

  /// The sum of what all ranks have given. Throws store_error if it overflows.
  std::int64_t all_sum(const std::string& key, std::int64_t value, limit timeout = {});

private:
  struct operation;

  operation begin(std::string_view name, const std::string& key, limit timeout);
  void use(const std::string& key);
  void arrive(const operation& call);
  void await_all(const operation& call);
  std::vector<bytes> values_of(const operation& call, std::span<const std::string> keys);
  bytes value_of(const operation& call, const std::string& key, std::string_view missing);
  std::vector<std::string> keys_of_ranks(const operation& call) const;
  std::vector<std::uint32_t> missing_ranks(const operation& call);
  [[noreturn]] void fail(const operation& call, std::string_view missing, const std::string& cause);

  prefix_store store_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::mutex mutex_;
  std::unordered_set<std::string> used_;  // guarded by mutex_
};

}  // namespace troupe::transport
