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
#include "troupe/transport/store/store_wire.hpp"

namespace troupe::transport {

/// Answers requests to a store, and keeps the clients that wait for a key. Clients are identified
/// by numbers; each has at most one request open. Not thread-safe.
class store_waiters {
public:
  explicit store_waiters(std::size_t capacity, std::size_t entries = max_store_entries)
      : state_(capacity, entries) {}

  /// Sets a value before any client waits.
  void put(const std::string& key, store::bytes value) { state_.set(key, std::move(value)); }

  /// The answer to `request`, whose value it may take; nothing if `client` must wait: `take_ready`
  /// returns it when it is time to try again. `last_chance`: answer now, whatever is missing.
  std::optional<store_reply> answer(std::uint64_t client, store_request& request, bool last_chance);

  /// `client` no longer waits.
  void forget(std::uint64_t client) { leave(client, false); }

  /// The clients to try again, since the last call.
  std::vector<std::uint64_t> take_ready() { return std::exchange(ready_, {}); }

private:
  // A value of a queue makes one waiting client ready, the one that has waited longest: if a
  // thousand were woken, 999 would find the queue empty again.
  struct waiting {
    std::string key;
    std::size_t at = 0;        // where the key stands in the request
    std::uint64_t ticket = 0;  // 0: for a key, else for a value of its queue
    bool notified = false;     // to take one
  };

  void leave(std::uint64_t client, bool served);
  store_reply execute(store_request& request);
  std::vector<std::string> lacking(const store_request& request) const;
  std::optional<store_reply> pop(const std::string& key);
  void enqueue(std::uint64_t client, const std::string& key, std::uint64_t ticket);
  void wake(const std::string& key);
  void wake_next_in_queue(const std::string& key);

  store_state state_;
  std::unordered_map<std::string, std::set<std::uint64_t>> waiters_;
  // The clients that wait for a queue and have not been notified, by ticket.
  std::unordered_map<std::string, std::map<std::uint64_t, std::uint64_t>> pop_queues_;
  std::unordered_map<std::uint64_t, waiting> waits_for_;
  std::uint64_t last_ticket_ = 0;
  std::vector<std::uint64_t> ready_;
};

}  // namespace troupe::transport
