#include "troupe/transport/store/prefix_store.hpp"

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

prefix_store::prefix_store(std::string prefix, std::shared_ptr<store> underlying)
    : prefix_(std::move(prefix) + "/"), underlying_(std::move(underlying)) {
  if (!underlying_) throw invalid_argument("a prefix_store needs a store to keep its keys in");
  set_timeout(underlying_->timeout());
}

std::shared_ptr<store> prefix_store::make_clone() {
  auto out = std::make_shared<prefix_store>("", underlying_->clone());
  out->prefix_ = prefix_;
  return out;
}

std::string prefix_store::full(const std::string& key) const {
  check_store_key(key);
  return prefix_ + key;
}

std::vector<std::string> prefix_store::full(std::span<const std::string> keys) const {
  std::vector<std::string> out;
  out.reserve(keys.size());
  for (const auto& key : keys) out.push_back(full(key));
  return out;
}

void prefix_store::set(const std::string& key, std::span<const std::byte> value) {
  underlying_->set(full(key), value);
}

store::bytes prefix_store::get(const std::string& key, milliseconds timeout) {
  return underlying_->get(full(key), timeout);
}

void prefix_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  underlying_->wait(full(keys), timeout);
}

std::int64_t prefix_store::add(const std::string& key, std::int64_t delta) {
  return underlying_->add(full(key), delta);
}

store::bytes prefix_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                       std::span<const std::byte> desired) {
  return underlying_->compare_set(full(key), expected, desired);
}

void prefix_store::append(const std::string& key, std::span<const std::byte> value) {
  underlying_->append(full(key), value);
}

bool prefix_store::delete_key(const std::string& key) { return underlying_->delete_key(full(key)); }

std::uint64_t prefix_store::num_keys() { return underlying_->num_keys(); }

bool prefix_store::check(std::span<const std::string> keys) {
  return underlying_->check(full(keys));
}

std::vector<std::string> prefix_store::keys_with(const std::string& prefix) {
  auto keys = underlying_->list_keys(prefix_ + prefix);
  for (auto& key : keys) key.erase(0, prefix_.size());
  return keys;
}

std::vector<store::bytes> prefix_store::multi_get(std::span<const std::string> keys,
                                                  milliseconds timeout) {
  return underlying_->multi_get(full(keys), timeout);
}

void prefix_store::multi_set(std::span<const std::string> keys, std::span<const bytes> values) {
  underlying_->multi_set(full(keys), values);
}

void prefix_store::queue_push(const std::string& key, std::span<const std::byte> value) {
  underlying_->queue_push(full(key), value);
}

std::optional<store::bytes> prefix_store::queue_try_pop(const std::string& key,
                                                        milliseconds timeout) {
  return underlying_->queue_try_pop(full(key), timeout);
}

std::uint64_t prefix_store::queue_len(const std::string& key) {
  return underlying_->queue_len(full(key));
}

}  // namespace troupe::transport
