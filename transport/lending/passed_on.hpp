#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "troupe/transport/lending/lending_note.hpp"
#include "troupe/transport/lending/node_number.hpp"

namespace troupe::transport::lending {

/// How memory that a node has been lent reaches a third node without a copy. *Owner*, *middle* and
/// *reader* are nodes of one host.
///
/// The middle lends the reader what it was lent itself, and names the owner; the reader reads it in
/// its own mapping of the owner's region, and tells the middle when it no longer does. The middle's
/// loan lasts as long, so nobody else takes part while all live. Only memory that its owner has
/// lent to the middle is passed on, by virtue of that loan, which the middle keeps meanwhile; not
/// what it has by way of another one.
///
/// If the middle ends, the owner must not end its loans while the reader reads. So it asks all that
/// have mapped its region (`whose`), those who come later too, and these answer (`nothing_of`) once
/// their own connection to the middle is over and they read nothing that came from there. Of those
/// that cannot be asked any more it waits for the end of the process (orphaned_loans.hpp).
///
/// For that the owner must know all readers: one tells the others that it can read the owner's
/// region (`can_read_of`) only after the owner has said that it knows it (`known`). A node of the
/// owner's own process is never told so, since nothing says when its process has ended.
///
/// If the owner ends, the reader lets go of its region. What is on its way must find it mapped, so
/// the reader tells all others first (`cannot_read_of`), and waits until it has got all that they
/// have passed on by then (`passed_in_all`).

/// What a peer is to be told, but for the ends of loans. Thread-safe.
class word_list {
public:
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  void add(const note_entry& word) {
    const std::lock_guard lock(mutex_);
    words_.push_back(word);
    any_.store(true, std::memory_order_relaxed);
  }

  /// Moves up to `most` to the end of `to`.
  void take(std::size_t most, std::vector<note_entry>& to) {
    const std::lock_guard lock(mutex_);
    for (; most > 0 && !words_.empty(); --most) {
      to.push_back(words_.back());
      words_.pop_back();
    }
    any_.store(!words_.empty(), std::memory_order_relaxed);
  }

private:
  std::mutex mutex_;
  std::vector<note_entry> words_;
  std::atomic<bool> any_{false};
};

/// The nodes whose memory a peer can read, and what it has been passed of each. A node that was
/// removed stays so, since what says that it can be read may come late. Thread-safe.
class readable_nodes {
public:
  void add(const node_number& owner) {
    const std::lock_guard lock(mutex_);
    all_.try_emplace(owner);
  }

  /// Counts one more that is passed on. False: the peer cannot read it, and nothing is counted.
  bool pass(const node_number& owner) {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(owner);
    if (at == all_.end() || at->second.removed) return false;
    ++at->second.passed;
    return true;
  }

  /// It was not passed on after all. A number: how many were, to correct what `remove` has said.
  std::optional<std::uint64_t> take_back(const node_number& owner) {
    const std::lock_guard lock(mutex_);
    auto& one = all_.at(owner);
    --one.passed;
    return one.removed ? std::optional(one.passed) : std::nullopt;
  }

  /// The peer cannot read it any more: how many were passed on.
  std::uint64_t remove(const node_number& owner) {
    const std::lock_guard lock(mutex_);
    auto& one = all_[owner];
    one.removed = true;
    return one.passed;
  }

private:
  struct state {
    std::uint64_t passed = 0;
    bool removed = false;
  };

  std::mutex mutex_;
  std::map<node_number, state> all_;
};

}  // namespace troupe::transport::lending
