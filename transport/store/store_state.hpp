#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// The keys and values of a store and its operations on them: common to the stores in memory,
/// behind a server and in a file. Not thread-safe; never waits. Callers have checked keys and
/// values against the limits; an operation that throws changes nothing.
class store_state {
public:
  using value = std::shared_ptr<const store::bytes>;

  /// At most `capacity` bytes of keys and values, and `entries` values, queued ones included; more
  /// throws store_error.
  explicit store_state(std::size_t capacity = std::size_t{4} << 30,
                       std::size_t entries = max_store_entries)
      : capacity_(capacity), most_entries_(entries) {}

  void set(const std::string& key, store::bytes bytes);

  /// Null if there is none.
  value find(const std::string& key) const;

  std::int64_t add(const std::string& key, std::int64_t delta);

  struct exchanged {
    store::bytes now;      ///< what compare_set returns
    bool written = false;  ///< whether anything changed
  };
  exchanged compare_set(const std::string& key, std::span<const std::byte> expected,
                        std::span<const std::byte> desired);

  void append(const std::string& key, std::span<const std::byte> bytes);

  /// All or none. There are as many values as keys.
  void multi_set(std::span<const std::string> keys, std::vector<store::bytes> values);

  /// Copies of the values of `keys`, all of which exist. Throws store_error if they are more than
  /// one answer can carry.
  std::vector<store::bytes> copy(std::span<const std::string> keys) const;

  void queue_push(const std::string& key, store::bytes bytes);

  /// Nothing if the queue is empty.
  std::optional<store::bytes> queue_pop(const std::string& key);
  std::size_t queue_len(const std::string& key) const;

  bool erase(const std::string& key);

  /// The index of one of `keys` that has no value, nor, if `queues` count, a queue; the search
  /// starts at `from` and wraps around. Nothing if there is none.
  std::optional<std::size_t> find_missing(std::span<const std::string> keys, std::size_t from,
                                          bool queues) const;

  /// The keys without a value.
  std::vector<std::string> without_value(std::span<const std::string> keys) const;

  /// The keys without a value or a queue.
  std::vector<std::string> missing(std::span<const std::string> keys) const;

  std::vector<std::string> keys_with(std::string_view prefix) const;
  std::size_t size() const noexcept { return values_.size(); }

private:
  // Throws unless what takes `before` bytes may take `after`, and there may be `more` entries.
  void check_room(const std::string& key, std::size_t before, std::size_t after,
                  std::size_t more) const;
  void put(const std::string& key, store::bytes bytes);

  std::unordered_map<std::string, std::shared_ptr<store::bytes>> values_;
  std::unordered_map<std::string, std::list<store::bytes>> queues_;  // none of them empty
  std::size_t capacity_;
  std::size_t most_entries_;
  std::size_t used_ = 0;
  std::size_t queued_ = 0;  // values in queues
};

}  // namespace troupe::transport
