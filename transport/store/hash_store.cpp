#include "transport/store/hash_store.hpp"

#include "messages/error.hpp"

namespace troupe::transport {

void hash_store::set(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  check_process();
  std::lock_guard lock(mutex_);
  state_.set(key, bytes(value.begin(), value.end()));
  changed_.notify_all();
}

void hash_store::wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys,
                             milliseconds timeout) {
  const auto there = [&] { return state_.missing(keys).empty(); };
  if (!changed_.wait_until(lock, deadline_after(timeout), there))
    throw store_error(wait_timeout_text(timeout, state_.missing(keys)));
}

store::bytes hash_store::get(const std::string& key, milliseconds timeout) {
  check_store_key(key);
  check_process();
  std::unique_lock lock(mutex_);
  wait_locked(lock, std::span(&key, 1), timeout);
  return *state_.find(key);
}

void hash_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  check_store_keys(keys);
  check_process();
  std::unique_lock lock(mutex_);
  wait_locked(lock, keys, timeout);
}

std::int64_t hash_store::add(const std::string& key, std::int64_t delta) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(mutex_);
  const auto sum = state_.add(key, delta);
  changed_.notify_all();
  return sum;
}

store::bytes hash_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                     std::span<const std::byte> desired) {
  check_store_key(key);
  check_store_value(expected.size());
  check_store_value(desired.size());
  check_process();
  std::lock_guard lock(mutex_);
  auto result = state_.compare_set(key, expected, desired);
  if (result.written) changed_.notify_all();
  return std::move(result.now);
}

bool hash_store::delete_key(const std::string& key) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(mutex_);
  return state_.erase(key);
}

std::uint64_t hash_store::num_keys() {
  check_process();
  std::lock_guard lock(mutex_);
  return state_.size();
}

bool hash_store::check(std::span<const std::string> keys) {
  check_store_keys(keys);
  check_process();
  std::lock_guard lock(mutex_);
  return state_.missing(keys).empty();
}

}  // namespace troupe::transport
