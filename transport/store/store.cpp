#include "troupe/transport/store/store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

void store::set(const std::string& key, std::string_view value) {
  set(key, std::as_bytes(std::span(value)));
}

void store::append(const std::string& key, std::string_view value) {
  append(key, std::as_bytes(std::span(value)));
}

void store::queue_push(const std::string& key, std::string_view value) {
  queue_push(key, std::as_bytes(std::span(value)));
}

store::bytes store::queue_pop(const std::string& key, milliseconds timeout) {
  if (auto value = queue_try_pop(key, timeout)) return std::move(*value);
  throw store_error(wait_timeout_text(timeout, std::span(&key, 1)));
}

std::vector<std::string> store::list_keys(const std::string& prefix) {
  if (prefix.size() > max_store_key)
    throw invalid_argument(
        fmt::format("no key of a store begins with {} bytes: they have at most {}", prefix.size(),
                    max_store_key));
  auto keys = keys_with(prefix);
  std::ranges::sort(keys);
  return keys;
}

std::shared_ptr<store> store::clone() {
  check_process();
  auto other = make_clone();
  other->set_timeout(timeout());
  return other;
}

void store::set_timeout(milliseconds timeout) {
  if (timeout < milliseconds{0})
    throw invalid_argument(
        fmt::format("a store cannot wait for {} ms; 0 only looks", timeout.count()));
  timeout_.store(timeout, std::memory_order_relaxed);
}

void store::check_process() const {
  if (!home_.here())
    throw store_error(
        "this store belongs to the process that this one was forked from; open another");
}

void check_store_key(const std::string& key) {
  if (key.empty()) throw invalid_argument("a key of a store must be non-empty");
  if (key.size() > max_store_key)
    throw invalid_argument(fmt::format("a key of a store has at most {} bytes, but '{}...' has {}",
                                       max_store_key, key.substr(0, 32), key.size()));
}

void check_store_keys(std::span<const std::string> keys) {
  if (keys.size() > max_store_keys_at_once)
    throw invalid_argument(
        fmt::format("one call of a store can name {} keys, but this one names {}",
                    max_store_keys_at_once, keys.size()));
  for (const auto& key : keys) check_store_key(key);
}

void check_store_value(std::size_t value_size) {
  if (value_size > max_store_value)
    throw invalid_argument(fmt::format("a value of a store has at most {} bytes, but this one {}",
                                       max_store_value, value_size));
}

void check_store_values(std::span<const std::string> keys, std::span<const store::bytes> values) {
  check_store_keys(keys);
  if (keys.size() != values.size())
    throw invalid_argument(fmt::format(
        "a store needs a value for each key, but there are {} for {}", values.size(), keys.size()));
  std::size_t together = 0;
  for (const auto& value : values) {
    check_store_value(value.size());
    together += value.size();
  }
  if (together > max_store_value)
    throw invalid_argument(
        fmt::format("the values of one call of a store have at most {} bytes together, but these "
                    "{}; set them in several calls",
                    max_store_value, together));
}

std::string wait_timeout_text(std::chrono::milliseconds timeout,
                              std::span<const std::string> missing) {
  constexpr std::size_t named = 8;
  auto text = fmt::format("wait timeout after {} ms, keys: {}", timeout.count(),
                          fmt::join(missing.first(std::min(named, missing.size())), ", "));
  if (missing.size() > named) text += fmt::format(" and {} more", missing.size() - named);
  return text;
}

store::bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace troupe::transport
