#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/forked.hpp"

namespace troupe::transport {

/// How long `get` and `wait` wait when not told otherwise.
inline constexpr std::chrono::milliseconds default_store_timeout{300'000};

/// Keys are 1 to 1,024 bytes, prefixes included; values up to 64 MiB.
inline constexpr std::size_t max_store_key = 1024;
inline constexpr std::size_t max_store_value = std::size_t{64} << 20;

/// The keys that one `wait` or `check` can name.
inline constexpr std::size_t max_store_keys_at_once = 65'536;

/// A map of short keys to bytes that all ranks of a job share: how they meet and agree.
///
/// Each operation is atomic. All are thread-safe; one that waits holds up no other. They throw
/// store_error when the store cannot be reached or a wait has passed its timeout, and
/// invalid_argument for keys and values beyond the limits above. A store belongs to the process
/// that has made it: a forked one, where each operation throws store_error, opens its own.
class store {
public:
  using bytes = std::vector<std::byte>;
  using milliseconds = std::chrono::milliseconds;

  virtual ~store() = default;

  virtual void set(const std::string& key, std::span<const std::byte> value) = 0;
  void set(const std::string& key, std::string_view value);

  /// The value of `key`, as soon as it is there. A timeout of 0 only looks.
  /// Throws store_error "wait timeout after N ms, keys: ...".
  virtual bytes get(const std::string& key, milliseconds timeout = default_store_timeout) = 0;

  /// Returns when all `keys` are there; throws as `get` does, naming those that are missing.
  virtual void wait(std::span<const std::string> keys,
                    milliseconds timeout = default_store_timeout) = 0;

  /// Adds `delta` to the number at `key` (0 if there is none) and returns the sum. The value is
  /// decimal text. Throws store_error if the value is something else or the sum overflows.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Writes `desired` if the value is `expected`, or if there is none and `expected` is empty.
  /// Returns what is there afterwards; `expected` if the key is missing and stays so.
  virtual bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                            std::span<const std::byte> desired) = 0;

  /// True if there was something to delete.
  virtual bool delete_key(const std::string& key) = 0;

  /// How many keys the whole store has, those of other prefixes and Troupe's own included.
  virtual std::uint64_t num_keys() = 0;

  /// True if all `keys` are there.
  virtual bool check(std::span<const std::string> keys) = 0;

protected:
  /// Throws store_error in a process that has been forked since the store was made.
  void check_process() const;

private:
  const forked::home home_;
};

/// Throw invalid_argument if a key, their number or a value's size is beyond the limits.
void check_store_key(const std::string& key);
void check_store_keys(std::span<const std::string> keys);
void check_store_value(std::size_t value_size);

/// The text of the error that ends a wait; the first few of `missing` are named.
std::string wait_timeout_text(std::chrono::milliseconds timeout,
                              std::span<const std::string> missing);

store::bytes to_bytes(std::string_view text);
std::string to_text(std::span<const std::byte> bytes);

/// Now plus `timeout`; timeouts of a year and more, and so also milliseconds::max(), do not
/// overflow.
std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout);

/// What is left until `deadline`, rounded up; 0 if it has passed.
std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline);

}  // namespace troupe::transport
