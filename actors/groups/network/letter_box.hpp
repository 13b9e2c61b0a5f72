#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/network/group_message.hpp"

namespace troupe::groups::network {

/// A receive that waits for a letter.
class posted_receive {
public:
  virtual ~posted_receive() = default;

  /// Its letter, once. On the thread that drives the network, or that posts it: brief.
  virtual void on_letter(letter&& what) noexcept = 0;
  /// There will be none; instead of `on_letter`.
  virtual void on_failure(const std::exception_ptr& why) noexcept = 0;
};

/// Letters that have arrived for one rank of a group, and its receives. A receive gets the oldest
/// letter that fits, a letter the oldest receive. Thread-safe.
class letter_box {
public:
  explicit letter_box(int size) : left_(static_cast<std::size_t>(size)) {}

  void put(letter&& what);

  /// `from`: a rank, or any_source. A letter that is here already counts even after a failure.
  void post(int from, int tag, std::shared_ptr<posted_receive> receive);

  /// False if it has had its letter or its failure.
  bool withdraw(const posted_receive& receive);

  /// All receives get `why`, now and later. The first one counts.
  void fail(const std::exception_ptr& why);

  /// No letter of `rank` will come any more.
  void leave(int rank, const std::exception_ptr& why);

private:
  struct place {
    int from;
    int tag;
    std::shared_ptr<posted_receive> receive;
  };

  std::exception_ptr failure_of(int from) const;

  std::mutex mutex_;
  std::deque<letter> letters_;  // the oldest first
  std::deque<place> receives_;
  std::exception_ptr failure_;
  std::vector<std::exception_ptr> left_;
};

}  // namespace troupe::groups::network
