#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe {

/// What programs and libraries register in this process by a key: factories, handlers. `Value` is
/// a std::function. Any thread; neither copies nor destructors of values run other code under the
/// lock. Make one with `new` and keep it: libraries that register may outlive static variables.
template <typename Key, typename Value>
class registry {
public:
  /// False if `key` is taken; it keeps what it has.
  bool add(const Key& key, Value value) {
    const std::lock_guard lock(mutex_);
    return all_.try_emplace(key, std::move(value)).second;
  }

  /// False if `key` has nothing.
  bool remove(const Key& key) {
    typename std::map<Key, Value>::node_type removed;  // destroyed after the lock is let go
    const std::lock_guard lock(mutex_);
    removed = all_.extract(key);
    return !removed.empty();
  }

  /// A copy, to be called without the lock; empty if `key` has nothing.
  Value find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(key);
    return found == all_.end() ? Value() : found->second;
  }

  std::map<Key, Value> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

  std::vector<Key> keys() const {
    std::vector<Key> out;
    const std::lock_guard lock(mutex_);
    out.reserve(all_.size());
    for (const auto& [key, value] : all_) out.push_back(key);
    return out;
  }

private:
  mutable std::mutex mutex_;
  std::map<Key, Value> all_;
};

}  // namespace troupe
