#include "transport/store/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "messages/error.hpp"

namespace troupe::transport {

void store_state::set(const std::string& key, store::bytes bytes) {
  const auto found = values_.find(key);
  const auto before = found == values_.end() ? 0 : found->second->size() + key.size();
  const auto after = bytes.size() + key.size();
  if (used_ - before + after > capacity_)
    throw store_error(fmt::format("the store is full: {} bytes of {} are used and '{}' needs {}",
                                  used_, capacity_, key, after));
  auto stored = std::make_shared<const store::bytes>(std::move(bytes));
  if (found == values_.end())
    values_.emplace(key, std::move(stored));
  else
    found->second = std::move(stored);
  used_ = used_ - before + after;
}

store_state::value store_state::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

std::int64_t store_state::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  if (const auto now = find(key)) {
    const auto text = to_text(*now);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc{} || end != text.data() + text.size())
      throw store_error(fmt::format("add needs a number, but the value of '{}' is none", key));
  }
  if (__builtin_add_overflow(sum, delta, &sum))
    throw store_error(fmt::format("adding {} to '{}' overflows 64 bits", delta, key));
  set(key, to_bytes(std::to_string(sum)));
  return sum;
}

store_state::exchanged store_state::compare_set(const std::string& key,
                                                std::span<const std::byte> expected,
                                                std::span<const std::byte> desired) {
  const auto now = find(key);
  if (now ? !std::ranges::equal(*now, expected) : !expected.empty())
    return {now ? *now : store::bytes(expected.begin(), expected.end()), false};
  store::bytes bytes(desired.begin(), desired.end());
  set(key, bytes);
  return {std::move(bytes), true};
}

bool store_state::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  used_ -= found->second->size() + key.size();
  values_.erase(found);
  return true;
}

std::vector<std::string> store_state::missing(std::span<const std::string> keys) const {
  std::vector<std::string> out;
  for (const auto& key : keys)
    if (!values_.contains(key)) out.push_back(key);
  return out;
}

}  // namespace troupe::transport
