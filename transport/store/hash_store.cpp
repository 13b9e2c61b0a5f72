#include "troupe/transport/store/hash_store.hpp"

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

std::shared_ptr<store> hash_store::make_clone() {
  return std::shared_ptr<store>(new hash_store(shared_));
}

template <class There>
bool hash_store::wait_locked(std::unique_lock<std::mutex>& lock, milliseconds timeout,
                             There&& there) {
  return shared_->changed.wait_until(lock, deadline_after(timeout), there);
}

bool hash_store::wait_for_keys(std::unique_lock<std::mutex>& lock, milliseconds timeout,
                               std::span<const std::string> keys, bool queues) {
  std::size_t from = 0;
  return wait_locked(lock, timeout, [&] {
    const auto missing = shared_->state.find_missing(keys, from, queues);
    from = missing.value_or(0);
    return !missing;
  });
}

void hash_store::set(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  check_process();
  std::lock_guard lock(shared_->mutex);
  shared_->state.set(key, bytes(value.begin(), value.end()));
  shared_->changed.notify_all();
}

store::bytes hash_store::get(const std::string& key, milliseconds timeout) {
  check_store_key(key);
  check_process();
  std::unique_lock lock(shared_->mutex);
  store_state::value found;
  const auto there = [&] { return (found = shared_->state.find(key)) != nullptr; };
  if (!wait_locked(lock, timeout, there))
    throw store_error(wait_timeout_text(timeout, std::span(&key, 1)));
  return *found;
}

void hash_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  check_store_keys(keys);
  check_process();
  std::unique_lock lock(shared_->mutex);
  if (!wait_for_keys(lock, timeout, keys, true))
    throw store_error(wait_timeout_text(timeout, shared_->state.missing(keys)));
}

bool hash_store::check(std::span<const std::string> keys) {
  check_store_keys(keys);
  check_process();
  std::lock_guard lock(shared_->mutex);
  return shared_->state.missing(keys).empty();
}

std::int64_t hash_store::add(const std::string& key, std::int64_t delta) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(shared_->mutex);
  const auto sum = shared_->state.add(key, delta);
  shared_->changed.notify_all();
  return sum;
}

store::bytes hash_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                     std::span<const std::byte> desired) {
  check_store_key(key);
  check_store_value(expected.size());
  check_store_value(desired.size());
  check_process();
  std::lock_guard lock(shared_->mutex);
  auto result = shared_->state.compare_set(key, expected, desired);
  if (result.written) shared_->changed.notify_all();
  return std::move(result.now);
}

void hash_store::append(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  check_process();
  std::lock_guard lock(shared_->mutex);
  shared_->state.append(key, value);
  shared_->changed.notify_all();
}

bool hash_store::delete_key(const std::string& key) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(shared_->mutex);
  return shared_->state.erase(key);
}

std::uint64_t hash_store::num_keys() {
  check_process();
  std::lock_guard lock(shared_->mutex);
  return shared_->state.size();
}

std::vector<std::string> hash_store::keys_with(const std::string& prefix) {
  check_process();
  std::lock_guard lock(shared_->mutex);
  return shared_->state.keys_with(prefix);
}

std::vector<store::bytes> hash_store::multi_get(std::span<const std::string> keys,
                                                milliseconds timeout) {
  check_store_keys(keys);
  check_process();
  std::unique_lock lock(shared_->mutex);
  if (!wait_for_keys(lock, timeout, keys, false))
    throw store_error(wait_timeout_text(timeout, shared_->state.without_value(keys)));
  return shared_->state.copy(keys);
}

void hash_store::multi_set(std::span<const std::string> keys, std::span<const bytes> values) {
  check_store_values(keys, values);
  check_process();
  std::lock_guard lock(shared_->mutex);
  shared_->state.multi_set(keys, {values.begin(), values.end()});
  shared_->changed.notify_all();
}

void hash_store::queue_push(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  check_process();
  std::lock_guard lock(shared_->mutex);
  shared_->state.queue_push(key, bytes(value.begin(), value.end()));
  shared_->changed.notify_all();
}

std::optional<store::bytes> hash_store::queue_try_pop(const std::string& key,
                                                      milliseconds timeout) {
  check_store_key(key);
  check_process();
  std::unique_lock lock(shared_->mutex);
  wait_locked(lock, timeout, [&] { return shared_->state.queue_len(key) > 0; });
  return shared_->state.queue_pop(key);
}

std::uint64_t hash_store::queue_len(const std::string& key) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(shared_->mutex);
  return shared_->state.queue_len(key);
}

}  // namespace troupe::transport
