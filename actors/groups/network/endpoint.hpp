#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::network {

/// The groups' messages on one node: each goes to the channel of its group. What comes before the
/// group is opened here waits for it. Thread-safe.
class endpoint {
public:
  /// So many bytes wait for groups to be opened, and no more: what comes beyond is dropped.
  static constexpr std::size_t most_early_bytes = std::size_t{1} << 30;

  endpoint(std::shared_ptr<remote_actors> actors, std::shared_ptr<engine> driver)
      : actors_(std::move(actors)), driver_(std::move(driver)) {}

  /// The channel of a group, in which this node is `rank`. Throws invalid_argument if a group of
  /// this name is open, or was, and not_initialized.
  std::shared_ptr<group_channel> open(const std::string& name, std::vector<peer*> members,
                                      int rank);

  /// Nothing is delivered to it any more.
  void close(const group_channel& channel) noexcept;

  // Of the node: see node_protocol.
  void deliver(decoder& body, peer& from);
  void evict(const peer& whom) noexcept;
  void close() noexcept;

private:
  struct early_message {
    peer* from;
    std::size_t bytes;
    group_message what;
  };

  const std::shared_ptr<remote_actors> actors_;
  const std::shared_ptr<engine> driver_;

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<group_channel>> open_;
  std::unordered_set<std::uint64_t> over_;  // names are not used again
  std::map<std::uint64_t, std::vector<early_message>> early_;
  std::size_t early_bytes_ = 0;
  bool closed_ = false;
};

}  // namespace troupe::groups::network
