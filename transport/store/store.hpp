#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/messages/base/forked.hpp"
#include "troupe/transport/system/deadline.hpp"

namespace troupe::transport {

/// The default timeout of a store's operations.
inline constexpr std::chrono::milliseconds default_store_timeout{300'000};

/// Keys are 1 to 1,024 bytes, prefixes included; values up to 64 MiB, and so are those of one
/// multi_get or multi_set together.
inline constexpr std::size_t max_store_key = 1024;
inline constexpr std::size_t max_store_value = std::size_t{64} << 20;

/// The most keys that one call can name.
inline constexpr std::size_t max_store_keys_at_once = 65'536;

/// The most values of one store, those in its queues included.
inline constexpr std::size_t max_store_entries = std::size_t{1} << 20;

/// A map of short keys to bytes that several processes share, all ranks of a job for example: by it
/// they find each other and agree. Besides values there are queues of values; both have keys, and a
/// value and a queue of one key are unrelated.
///
/// Each operation is atomic. All are thread-safe; one that waits blocks no other. They throw
/// store_error when the store cannot be reached, is full, or a wait has passed its timeout, and
/// invalid_argument for keys and values beyond the limits above. A store belongs to the process
/// that has made it: a forked one, where each operation throws store_error, opens its own.
///
/// Operations that wait take a timeout, or use the object's own (`timeout()`); 0 only checks. After
/// the timeout the error is "wait timeout after N ms, keys: ..." and names what is missing.
class store {
public:
  using bytes = std::vector<std::byte>;
  using milliseconds = std::chrono::milliseconds;

  virtual ~store() = default;

  virtual void set(const std::string& key, std::span<const std::byte> value) = 0;
  void set(const std::string& key, std::string_view value);

  /// Waits for the value of `key`.
  virtual bytes get(const std::string& key, milliseconds timeout) = 0;
  bytes get(const std::string& key) { return get(key, timeout()); }

  /// Waits until all `keys` exist, as values or as queues that are not empty.
  virtual void wait(std::span<const std::string> keys, milliseconds timeout) = 0;
  void wait(std::span<const std::string> keys) { wait(keys, timeout()); }

  /// True if all `keys` exist, as for `wait`.
  virtual bool check(std::span<const std::string> keys) = 0;

  /// Adds `delta` to the number at `key` (0 if there is none) and returns the sum. The value is
  /// decimal text. Throws store_error if the value is something else or the sum overflows.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Writes `desired` if the value is `expected`, or if there is none and `expected` is empty.
  /// Returns the value afterwards; `expected` if the key is missing and stays so.
  virtual bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                            std::span<const std::byte> desired) = 0;

  /// Appends `value` to the value of `key`; sets it if there is none. Throws store_error if the
  /// result would be larger than a value can be.
  virtual void append(const std::string& key, std::span<const std::byte> value) = 0;
  void append(const std::string& key, std::string_view value);

  /// True if there was a value to delete. Queues are removed when they are empty.
  virtual bool delete_key(const std::string& key) = 0;

  /// The number of values of the whole store, those of other prefixes and Troupe's own included,
  /// those in queues not.
  virtual std::uint64_t num_keys() = 0;

  /// The keys of all values that begin with `prefix`, sorted; queues have none. Throws store_error
  /// if they are more than 64 MiB.
  std::vector<std::string> list_keys(const std::string& prefix = {});

  /// Waits for the values of `keys` and returns them in this order, as they were at one moment.
  /// Throws store_error if they are too large together.
  virtual std::vector<bytes> multi_get(std::span<const std::string> keys, milliseconds timeout) = 0;
  std::vector<bytes> multi_get(std::span<const std::string> keys) {
    return multi_get(keys, timeout());
  }

  /// Sets each key to the value at the same index, all or none. The last of equal keys counts.
  /// Throws invalid_argument for another number of values.
  virtual void multi_set(std::span<const std::string> keys, std::span<const bytes> values) = 0;

  /// Adds `value` to the end of the queue at `key`.
  virtual void queue_push(const std::string& key, std::span<const std::byte> value) = 0;
  void queue_push(const std::string& key, std::string_view value);

  /// Waits for a value in the queue at `key` and removes the oldest. Each value goes to one caller;
  /// it is lost if the process or connection of that caller ends just then.
  bytes queue_pop(const std::string& key, milliseconds timeout);
  bytes queue_pop(const std::string& key) { return queue_pop(key, timeout()); }

  /// The same; nothing if the queue stays empty for `timeout`.
  virtual std::optional<bytes> queue_try_pop(const std::string& key, milliseconds timeout) = 0;
  std::optional<bytes> queue_try_pop(const std::string& key) {
    return queue_try_pop(key, milliseconds{0});
  }

  /// The number of values in the queue at `key`; 0 without one.
  virtual std::uint64_t queue_len(const std::string& key) = 0;

  /// Another object for the same store, with this one's timeout; closing one or setting its timeout
  /// does not affect the other. A clone of a client of a server opens its own connection and does
  /// not keep the server.
  std::shared_ptr<store> clone();

  /// The timeout of this object's operations that are given none. Throws invalid_argument for less
  /// than 0 ms.
  void set_timeout(milliseconds timeout);
  milliseconds timeout() const noexcept { return timeout_.load(std::memory_order_relaxed); }

protected:
  /// Throws store_error in a process that has been forked since the store was made.
  void check_process() const;

private:
  virtual std::vector<std::string> keys_with(const std::string& prefix) = 0;
  virtual std::shared_ptr<store> make_clone() = 0;

  const forked::home home_;
  std::atomic<milliseconds> timeout_{default_store_timeout};
};

/// Throw invalid_argument if a key, their number or a value's size is beyond the limits.
void check_store_key(const std::string& key);
void check_store_keys(std::span<const std::string> keys);
void check_store_value(std::size_t value_size);
void check_store_values(std::span<const std::string> keys, std::span<const store::bytes> values);

/// The text of the error that ends a wait; the first few of `missing` are named.
std::string wait_timeout_text(std::chrono::milliseconds timeout,
                              std::span<const std::string> missing);

store::bytes to_bytes(std::string_view text);
std::string to_text(std::span<const std::byte> bytes);

}  // namespace troupe::transport
