#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/rref/drop_queue.hpp"

namespace troupe {

class decoder;
class message_builder;

namespace detail {

/// Notifies owners of uses of their values that have ended here, and processes such messages of
/// other nodes. A message that cannot be sent is tried again with the next use that ends, and when
/// the other node makes a value here or sends a message about references. What waits for a node is
/// dropped when that node is lost. Thread-safe; nothing is sent under the lock.
class drops {
public:
  /// Sends a message. False: it could not be sent. Does not throw.
  using sender = std::function<bool(peer& to, message_builder& message)>;
  /// Called for each use that has ended.
  using listener = std::function<void(const rref_id& id, std::uint64_t use)>;

  /// `self`: this node's rank.
  drops(transport::rank_t self, sender send) : self_(self), send_(std::move(send)) {}

  /// A use of a value of `owner` has ended here. Hot path: while nothing waits for the owner it
  /// allocates nothing, and looks the owner up only if the last call was for another one.
  void add(peer& owner, const rref_id& id, std::uint64_t use) noexcept;

  /// A `drop` message of `from`: uses of values of this node have ended there. Throws decode_error.
  void take(decoder& in, peer& from, const listener& ended);

  /// `owner` has acknowledged this many messages.
  void acknowledged(const peer& owner, std::uint32_t messages) noexcept;

  /// A message about references has come from `other`: an occasion to send what could not be sent.
  void retry(const peer& other) noexcept {
    if (unsent_.load(std::memory_order_relaxed) > 0) send_again(other);
  }

  /// `whom` is gone.
  void evict(const peer& whom) noexcept;

  /// The node ends.
  void close() noexcept;

  /// What owners have yet to be notified of, in entries.
  std::size_t waiting() const;

private:
  using guard = std::unique_lock<std::mutex>;

  // Between this node and another one.
  struct channel {
    explicit channel(peer& with_) : with(with_) {}
    peer& with;
    drop_queue queue;         // what that node has yet to be notified of as the owner
    std::uint32_t taken = 0;  // its messages that were processed and are not yet acknowledged
    bool unsent = false;
  };

  bool send_one(peer& owner, const rref_id& id, std::uint64_t use) const noexcept;
  channel* find(const peer& other) noexcept;
  channel& channel_to(peer& other);
  void send_uses(channel& to, guard& lock) noexcept;
  void send_acknowledgement(channel& to, guard& lock) noexcept;
  bool send(channel& to, message_builder& message, guard& lock) noexcept;
  void send_again(const peer& other) noexcept;
  void mark(channel& one, bool unsent) noexcept;

  const transport::rank_t self_;
  const sender send_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  // None is erased: `send` keeps a reference to one while it has released the lock.
  std::unordered_map<const peer*, channel> channels_;
  channel* last_ = nullptr;               // that was looked for
  std::atomic<std::uint32_t> unsent_{0};  // channels on which something could not be sent
};

}  // namespace detail

}  // namespace troupe
