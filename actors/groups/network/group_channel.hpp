#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/groups/network/letter_box.hpp"
#include "troupe/actors/groups/network/mailbox.hpp"

namespace troupe {

class peer;
class remote_actors;

namespace groups::network {

/// One rank's messages of one group: those that it sends, and those that have arrived. Lives on
/// when its node has ended, and then sends nothing. Thread-safe.
class group_channel {
public:
  /// `members`: the nodes, by rank; they live as long as `actors`. A node may be several ranks.
  group_channel(std::shared_ptr<remote_actors> actors, std::shared_ptr<engine> driver,
                std::string name, std::vector<peer*> members, int rank);

  std::uint64_t id() const noexcept { return id_; }
  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  const peer& member(int rank) const { return *members_.at(static_cast<std::size_t>(rank)); }
  const std::shared_ptr<engine>& driver() const noexcept { return driver_; }
  mailbox& parts() noexcept { return parts_; }
  letter_box& letters() noexcept { return letters_; }

  /// Throws peer_lost, not_initialized, transport_error. `to` is not this rank, but may be on this
  /// node.
  void send(int to, part what);
  void send(int to, letter what);

  /// Tells the others, in the background. The messages of before arrive first.
  void send_failure(const fault& why) noexcept;
  void send_leave(std::uint64_t last) noexcept;

  /// What a member has sent. Throws decode_error if it is none.
  void accept(group_message&& message, const peer& from);

  /// Does `whom` have a rank other than this one? Then the group has failed.
  void evict(const peer& whom) noexcept;

  /// All that waits gets `why`, now and later, and whoever watches. The first one counts.
  void fail(std::exception_ptr why) noexcept;

  /// `notify` is called with the failure when there is one, perhaps at once, by any thread.
  void watch(std::function<void(const std::exception_ptr&)> notify);

  std::exception_ptr failure() const;

  /// Why a collective of that number cannot be carried out: a rank has left before it asked for it.
  /// nullptr: none has.
  std::exception_ptr lacks(std::uint64_t sequence) const;

  /// That a rank has left the group; nullptr: it has not.
  std::exception_ptr left(int rank) const;

private:
  template <class Body>
  void send_to(int to, Body&& what);
  template <class Body>
  void send_to_all(const Body& what) noexcept;

  const std::shared_ptr<remote_actors> actors_;
  const std::shared_ptr<engine> driver_;
  const std::string name_;
  const std::uint64_t id_;
  const std::vector<peer*> members_;
  const int rank_;
  mailbox parts_;
  letter_box letters_;

  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::uint64_t fewest_ = ~std::uint64_t{0};  // collectives that a rank had asked for when it left
  std::exception_ptr who_left_;               // after so few
  std::vector<std::exception_ptr> left_;      // by rank
  std::function<void(const std::exception_ptr&)> notify_;
};

/// The number by which messages name a group.
std::uint64_t group_id(const std::string& name) noexcept;

}  // namespace groups::network

}  // namespace troupe
