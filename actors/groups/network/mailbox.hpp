#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "troupe/actors/groups/network/group_message.hpp"
#include "troupe/actors/scheduler/engine.hpp"

namespace troupe::groups::network {

/// Parts of one group's collectives that have arrived on this rank, until they are taken. Any
/// thread puts; one thread at a time takes.
class mailbox {
public:
  mailbox(std::shared_ptr<engine> driver, int size)
      : driver_(std::move(driver)), left_(static_cast<std::size_t>(size)) {}

  /// Throws decode_error if it was sent before.
  void put(const part_key& key, packet&& content);

  /// Blocks until the part is there; nothing: the deadline has passed. What is there is taken even
  /// after a failure. Throws what `fail` or `leave` was called with, and not_initialized.
  std::optional<packet> take(const part_key& key, clock::time_point deadline);

  /// The same without waiting: nothing if it is not there yet.
  std::optional<packet> take_if_there(const part_key& key);

  /// The ranks from `first` on, but `self`, of which no part of that stage is here.
  std::vector<int> missing(std::uint64_t sequence, std::uint32_t stage, int self, int first) const;

  /// No part of that stage is needed for collectives up to this one: those that are here go, and
  /// those that come are dropped. Of one stage, with growing numbers.
  void forget(std::uint64_t sequence, std::uint32_t stage);

  /// Whoever waits gets `why`, now and later. The first one counts.
  void fail(std::exception_ptr why);

  /// No part of `rank` will come any more: who waits for one gets `why`.
  void leave(int rank, std::exception_ptr why);

private:
  struct wait {
    part_key key;
    completion over;
  };

  std::exception_ptr failure_of(int rank) const;
  void end_wait();

  const std::shared_ptr<engine> driver_;
  mutable std::mutex mutex_;
  std::map<part_key, packet> arrived_;
  std::uint64_t forgotten_ = 0;  // collectives, of which that stage is dropped
  std::uint32_t forgotten_stage_ = 0;
  std::shared_ptr<wait> waiting_;
  std::exception_ptr failure_;
  std::vector<std::exception_ptr> left_;  // by rank
};

}  // namespace troupe::groups::network
