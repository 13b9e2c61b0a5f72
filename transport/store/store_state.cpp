#include "troupe/transport/store/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/last_owner.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::transport {

void store_state::check_room(const std::string& key, std::size_t before, std::size_t after,
                             std::size_t more) const {
  if (used_ - before + after > capacity_)
    throw store_error(fmt::format("the store is full: {} bytes of {} are used and '{}' needs {}",
                                  used_, capacity_, key, after));
  const auto entries = values_.size() + queued_;
  if (more > 0 && entries + more > most_entries_)
    throw store_error(
        fmt::format("the store is full: it has {} values of {}, and '{}' would be "
                    "one too many; delete keys that are no longer needed",
                    entries, most_entries_, key));
}

void store_state::set(const std::string& key, store::bytes bytes) {
  const auto now = find(key);
  check_room(key, now ? now->size() + key.size() : 0, bytes.size() + key.size(), now ? 0 : 1);
  put(key, std::move(bytes));
}

void store_state::put(const std::string& key, store::bytes bytes) {
  const auto found = values_.find(key);
  const bool there = found != values_.end();
  const auto before = there ? found->second->size() + key.size() : 0;
  const auto after = bytes.size() + key.size();
  auto stored = std::make_shared<store::bytes>(std::move(bytes));
  if (there)
    found->second = std::move(stored);
  else
    values_.emplace(key, std::move(stored));
  used_ = used_ - before + after;
}

store_state::value store_state::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

std::int64_t store_state::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  if (const auto now = find(key)) {
    const auto number = whole_number<std::int64_t>(to_text(*now));
    if (!number)
      throw store_error(fmt::format("add needs a number, but the value of '{}' is none", key));
    sum = *number;
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

void store_state::append(const std::string& key, std::span<const std::byte> bytes) {
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, {bytes.begin(), bytes.end()});
  auto& now = found->second;
  if (now->size() + bytes.size() > max_store_value)
    throw store_error(
        fmt::format("appending {} bytes to the {} of '{}' makes more than the {} "
                    "that a value can have",
                    bytes.size(), now->size(), key, max_store_value));
  check_room(key, 0, bytes.size(), 0);
  if (!is_last_owner(now)) now = std::make_shared<store::bytes>(*now);  // a reader has it
  now->insert(now->end(), bytes.begin(), bytes.end());
  used_ += bytes.size();
}

void store_state::multi_set(std::span<const std::string> keys, std::vector<store::bytes> values) {
  std::unordered_map<std::string_view, std::size_t> last;
  for (std::size_t i = 0; i < keys.size(); ++i) last[keys[i]] = i;
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t more = 0;
  for (const auto& [key, i] : last) {
    after += key.size() + values[i].size();
    if (const auto now = find(keys[i]))
      before += key.size() + now->size();
    else
      ++more;
  }
  if (!keys.empty()) check_room(keys.back(), before, after, more);
  for (const auto& [key, i] : last) put(keys[i], std::move(values[i]));
}

std::vector<store::bytes> store_state::copy(std::span<const std::string> keys) const {
  std::size_t together = 0;
  for (const auto& key : keys) together += find(key)->size();
  if (together > max_store_value)
    throw store_error(
        fmt::format("the values of {} keys have {} bytes together, more than the {} "
                    "of one answer; get them in several calls",
                    keys.size(), together, max_store_value));
  std::vector<store::bytes> out;
  out.reserve(keys.size());
  for (const auto& key : keys) out.push_back(*find(key));
  return out;
}

void store_state::queue_push(const std::string& key, store::bytes bytes) {
  const auto size = bytes.size() + key.size();
  check_room(key, 0, size, 1);
  std::list<store::bytes> one;
  one.push_back(std::move(bytes));
  auto& queue = queues_[key];
  queue.splice(queue.end(), one);
  used_ += size;
  ++queued_;
}

std::optional<store::bytes> store_state::queue_pop(const std::string& key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return std::nullopt;
  auto out = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  used_ -= out.size() + key.size();
  --queued_;
  return out;
}

std::size_t store_state::queue_len(const std::string& key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : found->second.size();
}

bool store_state::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  used_ -= found->second->size() + key.size();
  values_.erase(found);
  return true;
}

std::optional<std::size_t> store_state::find_missing(std::span<const std::string> keys,
                                                     std::size_t from, bool queues) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto at = (from + i) % keys.size();
    if (!values_.contains(keys[at]) && !(queues && queues_.contains(keys[at]))) return at;
  }
  return std::nullopt;
}

std::vector<std::string> store_state::without_value(std::span<const std::string> keys) const {
  std::vector<std::string> out;
  for (const auto& key : keys)
    if (!values_.contains(key)) out.push_back(key);
  return out;
}

std::vector<std::string> store_state::missing(std::span<const std::string> keys) const {
  std::vector<std::string> out;
  for (const auto& key : keys)
    if (!values_.contains(key) && !queues_.contains(key)) out.push_back(key);
  return out;
}

std::vector<std::string> store_state::keys_with(std::string_view prefix) const {
  std::vector<std::string> out;
  std::size_t together = 0;
  for (const auto& [key, ignored] : values_) {
    if (!key.starts_with(prefix)) continue;
    together += key.size();
    if (together > max_store_value)
      throw store_error(
          fmt::format("the keys that begin with '{}' have more than the {} bytes of "
                      "one answer; list those of a longer prefix",
                      prefix, max_store_value));
    out.push_back(key);
  }
  return out;
}

}  // namespace troupe::transport
