#include "transport/store/store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "messages/error.hpp"

namespace troupe::transport {

void store::set(const std::string& key, std::string_view value) {
  set(key, std::as_bytes(std::span(value)));
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

std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds year = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::milliseconds{0}, year);
}

std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds{0});
}

}  // namespace troupe::transport
