#include "troupe/transport/store/store_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/deadline.hpp"

namespace troupe::transport {

namespace {

// So many ranks are named by an error.
constexpr std::size_t named_ranks = 64;

std::string ranks_text(std::span<const std::uint32_t> missing) {
  auto text = fmt::format("missing ranks: {}",
                          fmt::join(missing.first(std::min(named_ranks, missing.size())), ", "));
  if (missing.size() > named_ranks)
    text += fmt::format(" and {} more", missing.size() - named_ranks);
  return text;
}

}  // namespace

/// A call in progress. Its keys in the store are "NAME/PART/KEY": as neither name nor part, often a
/// rank, contains a slash, different operations have different keys, whatever KEY is.
struct store_collectives::operation {
  std::string part_key(std::string_view part) const {
    return fmt::format("{}/{}/{}", name, part, key);
  }
  std::string rank_key(std::uint32_t rank) const {
    return fmt::format("{}/{}/{}", name, rank, key);
  }
  std::chrono::milliseconds left() const { return time_left(deadline); }

  std::string_view name;
  const std::string& key;
  std::chrono::milliseconds limit;
  std::chrono::steady_clock::time_point deadline;
};

store_collectives::store_collectives(std::shared_ptr<store> store, const std::string& prefix,
                                     std::uint32_t rank, std::uint32_t world_size)
    : store_(prefix, std::move(store)), rank_(rank), world_size_(world_size) {
  if (prefix.empty()) throw invalid_argument("store_collectives need a prefix for their keys");
  if (rank >= world_size)
    throw invalid_argument(
        fmt::format("rank {} of store_collectives '{}' must be less than its world size, {}", rank,
                    prefix, world_size));
}

void store_collectives::barrier(const std::string& key, limit timeout, bool blocking) {
  const auto call = begin("barrier", key, timeout);
  use(key);
  arrive(call);
  if (blocking) await_all(call);
}

void store_collectives::broadcast_send(const std::string& key, std::span<const std::byte> data) {
  const auto call = begin("broadcast", key, {});
  check_store_value(data.size());
  use(key);
  store_.set(call.part_key("data"), data);
}

store::bytes store_collectives::broadcast_recv(const std::string& key, limit timeout) {
  const auto call = begin("broadcast", key, timeout);
  use(key);
  return value_of(call, call.part_key("data"), "no rank has sent");
}

void store_collectives::gather_send(const std::string& key, std::span<const std::byte> data) {
  const auto call = begin("gather", key, {});
  check_store_value(data.size());
  use(key);
  store_.set(call.rank_key(rank_), data);
}

std::vector<store::bytes> store_collectives::gather_recv(const std::string& key,
                                                         std::span<const std::byte> data,
                                                         limit timeout) {
  const auto call = begin("gather", key, timeout);
  check_store_value(data.size());
  use(key);
  auto keys = keys_of_ranks(call);
  keys.erase(keys.begin() + rank_);
  auto values = values_of(call, keys);
  values.emplace(values.begin() + rank_, data.begin(), data.end());
  return values;
}

store::bytes store_collectives::scatter_send(const std::string& key, std::span<const bytes> data) {
  const auto call = begin("scatter", key, {});
  if (data.size() != world_size_)
    throw invalid_argument(
        fmt::format("scatter of key '{}' needs a value for each of {} ranks, but rank {} gave {}",
                    key, world_size_, rank_, data.size()));
  auto keys = keys_of_ranks(call);
  std::vector<bytes> values(data.begin(), data.end());
  auto own = std::move(values[rank_]);
  keys.erase(keys.begin() + rank_);
  values.erase(values.begin() + rank_);
  check_store_values(keys, values);
  use(key);
  if (!keys.empty()) store_.multi_set(keys, values);
  return own;
}

store::bytes store_collectives::scatter_recv(const std::string& key, limit timeout) {
  const auto call = begin("scatter", key, timeout);
  use(key);
  return value_of(call, call.rank_key(rank_), "no rank has sent");
}

std::vector<store::bytes> store_collectives::all_gather(const std::string& key,
                                                        std::span<const std::byte> data,
                                                        limit timeout) {
  const auto call = begin("all_gather", key, timeout);
  check_store_value(data.size());
  use(key);
  store_.set(call.rank_key(rank_), data);
  return values_of(call, keys_of_ranks(call));
}

std::int64_t store_collectives::all_sum(const std::string& key, std::int64_t value, limit timeout) {
  const auto call = begin("all_sum", key, timeout);
  use(key);
  store_.add(call.part_key("sum"), value);
  arrive(call);
  await_all(call);
  return store_.add(call.part_key("sum"), 0);
}

store_collectives::operation store_collectives::begin(std::string_view name, const std::string& key,
                                                      limit timeout) {
  const auto bound = timeout.value_or(store_.timeout());
  if (bound < std::chrono::milliseconds{0})
    throw invalid_argument(
        fmt::format("{} of key '{}' cannot wait for {} ms", name, key, bound.count()));
  check_store_key(key);
  return {.name = name, .key = key, .limit = bound, .deadline = deadline_after(bound)};
}

void store_collectives::use(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!used_.insert(key).second)
    throw invalid_argument(fmt::format(
        "key '{}' has already been used by rank {}; give each operation another", key, rank_));
}

// The last rank opens the way for all: the others wait for one key, not for one of each rank.
void store_collectives::arrive(const operation& call) {
  if (store_.add(call.rank_key(rank_), 1) != 1)
    throw store_error(fmt::format(
        "rank {} is already in the {} of key '{}': another object has used the key, or the rank",
        rank_, call.name, call.key));
  if (store_.add(call.part_key("members"), 1) == world_size_)
    store_.set(call.part_key("complete"), "");
}

void store_collectives::await_all(const operation& call) {
  const auto complete = call.part_key("complete");
  try {
    store_.wait(std::span(&complete, 1), call.left());
  } catch (const store_error& e) {
    const auto missing = missing_ranks(call);
    if (!missing.empty()) fail(call, ranks_text(missing), e.what());
    // All are there: the last one is between its two steps, or came after the wait.
  }
}

std::vector<store::bytes> store_collectives::values_of(const operation& call,
                                                       std::span<const std::string> keys) {
  try {
    return store_.multi_get(keys, call.left());
  } catch (const store_error& e) {
    auto missing = missing_ranks(call);
    std::erase(missing, rank_);  // its own value is known
    if (!missing.empty()) fail(call, ranks_text(missing), e.what());
    return store_.multi_get(keys, std::chrono::milliseconds{0});  // came after the wait
  }
}

store::bytes store_collectives::value_of(const operation& call, const std::string& key,
                                         std::string_view missing) {
  try {
    return store_.get(key, call.left());
  } catch (const store_error& e) {
    if (!store_.check(std::span(&key, 1))) fail(call, missing, e.what());
    return store_.get(key, std::chrono::milliseconds{0});  // came after the wait
  }
}

std::vector<std::string> store_collectives::keys_of_ranks(const operation& call) const {
  std::vector<std::string> keys;
  keys.reserve(world_size_);
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) keys.push_back(call.rank_key(rank));
  return keys;
}

std::vector<std::uint32_t> store_collectives::missing_ranks(const operation& call) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    const auto key = call.rank_key(rank);
    if (!store_.check(std::span(&key, 1))) missing.push_back(rank);
  }
  return missing;
}

void store_collectives::fail(const operation& call, std::string_view missing,
                             const std::string& cause) {
  throw store_error(fmt::format("{} of key '{}' failed at rank {} of {} after {} ms: {} ({})",
                                call.name, call.key, rank_, world_size_, call.limit.count(),
                                missing, cause));
}

}  // namespace troupe::transport
