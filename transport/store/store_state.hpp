#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/store/store.hpp"

namespace troupe::transport {

/// The keys and values of a store and what its operations do to them: what the stores in memory,
/// behind a server and in a file have in common. Not thread-safe; never waits. Callers have
/// checked keys and values against the limits.
class store_state {
public:
  using value = std::shared_ptr<const store::bytes>;

  /// At most `capacity` bytes of keys and values; more throws store_error.
  explicit store_state(std::size_t capacity = std::size_t{4} << 30) : capacity_(capacity) {}

  void set(const std::string& key, store::bytes bytes);

  /// Null if there is none.
  value find(const std::string& key) const;

  std::int64_t add(const std::string& key, std::int64_t delta);

  struct exchanged {
    store::bytes now;      ///< what compare_set returns
    bool written = false;  ///< did anything change?
  };
  exchanged compare_set(const std::string& key, std::span<const std::byte> expected,
                        std::span<const std::byte> desired);

  bool erase(const std::string& key);
  std::vector<std::string> missing(std::span<const std::string> keys) const;
  std::size_t size() const noexcept { return values_.size(); }

private:
  std::unordered_map<std::string, value> values_;
  std::size_t capacity_;
  std::size_t used_ = 0;
};

}  // namespace troupe::transport
