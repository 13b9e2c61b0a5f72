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

/// Tells owners which uses of their values have ended here, and takes up what others tell this
/// node. A note that cannot be sent is tried again with the next use that ends, and when the other
/// node makes a value here or tells of references; what waits goes when that node is lost.
/// Thread-safe; nothing is sent under a lock.
class drops {
public:
  /// Sends a note. False: it could not be sent. Does not throw.
  using sender = std::function<bool(peer& to, message_builder& note)>;
  /// Hears of a use that has ended.
  using listener = std::function<void(const rref_id& id, std::uint64_t use)>;

  /// `self`: this node's rank.
  drops(transport::rank_t self, sender send) : self_(self), send_(std::move(send)) {}

  /// A use of a value of `owner` has ended here. Hot path: for one whose owner is up to date it
  /// allocates nothing, and looks the owner up only if it is not the last one's.
  void add(peer& owner, const rref_id& id, std::uint64_t use) noexcept;

  /// A note of `from`: which uses of values of this node have ended there. Throws decode_error.
  void take(decoder& in, peer& from, const listener& ended);

  /// `owner` has taken up so many notes.
  void taken_up(const peer& owner, std::uint32_t notes) noexcept;

  /// Something about references has come from `other`.
  void heard_of(const peer& other) noexcept {
    if (unsent_.load(std::memory_order_relaxed) > 0) try_again(other);
  }

  /// `whom` is gone.
  void evict(const peer& whom) noexcept;

  /// The node ends.
  void close() noexcept;

  /// What owners have yet to be told, in entries.
  std::size_t waiting() const;

private:
  using guard = std::unique_lock<std::mutex>;

  // Between this node and another.
  struct line {
    explicit line(peer& with_) : with(with_) {}
    peer& with;
    drop_queue queue;         // what that node has yet to be told as the owner
    std::uint32_t taken = 0;  // its notes that have been taken up, and it does not know of
    bool unsent = false;
  };

  bool send_one(peer& owner, const rref_id& id, std::uint64_t use) const noexcept;
  line* find(const peer& other) noexcept;
  line& line_of(peer& other);
  void send_uses(line& to, guard& lock) noexcept;
  void send_taken(line& to, guard& lock) noexcept;
  bool send(line& to, message_builder& note, guard& lock) noexcept;
  void try_again(const peer& other) noexcept;
  void mark(line& one, bool unsent) noexcept;

  const transport::rank_t self_;
  const sender send_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  std::unordered_map<const peer*, line> lines_;  // none goes before the table: see `send`
  line* last_ = nullptr;                         // that was looked for
  std::atomic<std::uint32_t> unsent_{0};         // lines on which something could not be sent
};

}  // namespace detail

}  // namespace troupe
