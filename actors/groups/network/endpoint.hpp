#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::network {

/// The groups' messages on one node: each goes to the channel of its group, and of its rank in it.
/// What comes before that is opened here waits for it. Thread-safe.
class endpoint {
public:
  /// `most_early_bytes` wait for groups to be opened, and no more. The group whose message would be
  /// beyond fails: those who have sent are told, and the others when it is opened.
  endpoint(std::shared_ptr<remote_actors> actors, std::shared_ptr<engine> driver,
           std::size_t most_early_bytes = std::size_t{1} << 30)
      : actors_(std::move(actors)),
        driver_(std::move(driver)),
        most_early_bytes_(most_early_bytes) {}

  /// The channel of one rank of a group. `alone`: this node has no other rank in it. Throws
  /// invalid_argument if that rank is open, or was; if `alone`, any of a group of this name; and
  /// not_initialized.
  std::shared_ptr<group_channel> open(const std::string& name, std::vector<peer*> members, int rank,
                                      bool alone = true);

  /// Nothing is delivered to it any more.
  void close(const group_channel& channel) noexcept;

  // Of the node: see node_protocol.
  void deliver(decoder& body, peer& from);
  void evict(const peer& whom) noexcept;
  void close() noexcept;

private:
  // One rank of a group.
  using place = std::pair<std::uint64_t, int>;

  static place place_of(const group_channel& channel) noexcept {
    return {channel.id(), channel.rank()};
  }
  std::exception_ptr refusal(const peer& from, const std::string& group) const;
  using senders = std::map<std::int32_t, peer*>;
  senders refuse(const place& where, const group_message& message, peer& from);
  void tell_refused(const senders& all, const group_message& message, const peer& from);
  bool was_opened(const place& where, bool alone) const;

  struct early_message {
    peer* from;
    std::size_t bytes;
    group_message what;
  };

  const std::shared_ptr<remote_actors> actors_;
  const std::shared_ptr<engine> driver_;
  const std::size_t most_early_bytes_;

  std::mutex mutex_;
  std::map<place, std::shared_ptr<group_channel>> open_;
  std::set<place> over_;  // names are not used again
  std::map<place, std::vector<early_message>> early_;
  std::size_t early_bytes_ = 0;
  std::map<place, const peer*> refused_;  // whose message would have been too much
  bool closed_ = false;
};

}  // namespace troupe::groups::network
