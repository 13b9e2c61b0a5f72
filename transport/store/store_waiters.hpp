#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/transport/store/store_state.hpp"
#include "troupe/transport/store/tcp/store_wire.hpp"

namespace troupe::transport {

/// Answers requests to a store, and remembers who waits for which key. Clients are numbers here;
/// each has at most one request open. Not thread-safe.
class store_desk {
public:
  explicit store_desk(std::size_t capacity, std::size_t entries = max_store_entries)
      : state_(capacity, entries) {}

  /// Before anybody waits.
  void put(const std::string& key, store::bytes value) { state_.set(key, std::move(value)); }

  /// The answer to `request`, whose value it may take; nothing if `client` must wait: it is among
  /// `take_woken` when it is time to try again. `last_chance`: answer now, whatever is missing.
  std::optional<store_reply> answer(std::uint64_t client, store_request& request, bool last_chance);

  /// `client` no longer waits.
  void forget(std::uint64_t client) { leave(client, false); }

  /// Who should be tried again, since the last call.
  std::vector<std::uint64_t> take_woken() { return std::exchange(woken_, {}); }

private:
  // Who waits for a value of a queue is woken alone, the first who came first: of a thousand, 999
  // would find it empty again.
  struct waiting {
    std::string key;
    std::size_t at = 0;        // where the key stands in the request
    std::uint64_t ticket = 0;  // 0: for a key, else for a value of its queue
    bool woken = false;        // to take one
  };

  void leave(std::uint64_t client, bool served);
  store_reply execute(store_request& request);
  std::vector<std::string> lacking(const store_request& request) const;
  std::optional<store_reply> pop(const std::string& key);
  void stand_in_line(std::uint64_t client, const std::string& key, std::uint64_t ticket);
  void wake(const std::string& key);
  void wake_next_in_line(const std::string& key);

  store_state state_;
  std::unordered_map<std::string, std::set<std::uint64_t>> waiters_;
  // The clients that wait for a queue and are not woken, by ticket.
  std::unordered_map<std::string, std::map<std::uint64_t, std::uint64_t>> lines_;
  std::unordered_map<std::uint64_t, waiting> waits_for_;
  std::uint64_t last_ticket_ = 0;
  std::vector<std::uint64_t> woken_;
};

}  // namespace troupe::transport
