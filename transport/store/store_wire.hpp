#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// A client's request to a store; schema StoreRequest. The records of a file store are requests,
/// too.
struct store_request {
  enum class op : std::uint16_t {
    set,
    get,
    wait,
    add,
    compare_set,
    delete_key,
    num_keys,
    check,
    status,
    append,
    multi_get,
    multi_set,
    queue_push,
    queue_pop,
    queue_len,
    list_keys,
  };

  op what = op::status;
  std::vector<std::string> keys = {};
  store::bytes value = {};
  store::bytes expected = {};
  std::int64_t delta = 0;
  std::chrono::milliseconds timeout{0};
  std::vector<store::bytes> values = {};

  /// Whether the answer may have to wait for something.
  bool waits() const noexcept {
    return what == op::get || what == op::wait || what == op::multi_get || what == op::queue_pop;
  }
};

/// The answer; schema StoreReply.
struct store_reply {
  enum class kind : std::uint16_t { done, value, number, missing, failed, values, keys };

  kind what = kind::done;
  store::bytes value = {};
  std::int64_t number = 0;
  std::vector<std::string> keys = {};
  std::vector<store::bytes> values = {};
};

/// The largest message of either kind: a value and what is expected of one, many keys and values,
/// or all keys of a store.
inline constexpr std::size_t max_store_message =
    2 * max_store_value + 16 * max_store_entries + (std::size_t{1} << 20);

store::bytes encode(const store_request& request);
store::bytes encode(const store_reply& reply);

/// Reads what `encode` wrote. Throws decode_error for anything else and for keys and values beyond
/// the store's limits; takes no more memory than a few times `bytes`.
store_request decode_store_request(std::span<const std::byte> bytes);
store_reply decode_store_reply(std::span<const std::byte> bytes);

}  // namespace troupe::transport
