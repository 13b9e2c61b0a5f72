#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/store/store_state.hpp"
#include "transport/store/store_wire.hpp"

namespace troupe::transport {

/// Answers requests to a store, and remembers who waits for which key. Clients are numbers here;
/// each has at most one request open. Not thread-safe.
class store_desk {
public:
  explicit store_desk(std::size_t capacity) : state_(capacity) {}

  /// Before anybody waits.
  void put(const std::string& key, store::bytes value) { state_.set(key, std::move(value)); }

  /// The answer to `request`, whose value it may take; nothing if `client` must wait: it is among
  /// `take_woken` when it is time to try again. `last_chance`: answer now, whatever is missing.
  std::optional<store_reply> answer(std::uint64_t client, store_request& request, bool last_chance);

  /// `client` no longer waits.
  void forget(std::uint64_t client);

  /// Who should be tried again, since the last call.
  std::vector<std::uint64_t> take_woken() { return std::exchange(woken_, {}); }

private:
  store_reply execute(store_request& request);
  void wake(const std::string& key);

  store_state state_;
  std::unordered_map<std::string, std::set<std::uint64_t>> waiters_;
  std::unordered_map<std::uint64_t, std::string> waits_for_;
  std::vector<std::uint64_t> woken_;
};

}  // namespace troupe::transport
