#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe {

/// What programs and libraries register in this process by a key: factories, handlers. `Value` is
/// a std::function. Any thread; values are copied and destroyed without the lock, since both may
/// run code that registers something. Make one with `new` and keep it: libraries that register may
/// outlive static variables.
template <typename Key, typename Value>
class registry {
public:
  /// False if `key` is taken; it keeps what it has.
  bool add(const Key& key, Value value) {
    auto held = std::make_shared<const Value>(std::move(value));
    const std::lock_guard lock(mutex_);
    return all_.try_emplace(key, std::move(held)).second;
  }

  /// False if `key` has nothing.
  bool remove(const Key& key) {
    typename table::node_type removed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    removed = all_.extract(key);
    return !removed.empty();
  }

  /// A copy; empty if `key` has nothing.
  Value find(const Key& key) const {
    const auto found = held(key);
    return found ? *found : Value();
  }

  bool contains(const Key& key) const { return held(key) != nullptr; }

  std::map<Key, Value> all() const {
    const auto now = snapshot();
    std::map<Key, Value> out;
    for (const auto& [key, value] : now) out.emplace(key, *value);
    return out;
  }

  std::vector<Key> keys() const {
    std::vector<Key> out;
    for (const auto& [key, value] : snapshot()) out.push_back(key);
    return out;
  }

private:
  using table = std::map<Key, std::shared_ptr<const Value>>;

  std::shared_ptr<const Value> held(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(key);
    return found == all_.end() ? nullptr : found->second;
  }

  table snapshot() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

  mutable std::mutex mutex_;
  table all_;
};

}  // namespace troupe
