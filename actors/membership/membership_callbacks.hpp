#pragma once

#include <vector>

#include "troupe/actors/membership/membership_messages.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

/// What a membership wants done. Called inside of its functions, on their thread; an implementation
/// does not throw and does not call the membership back.
class membership_callbacks {
public:
  virtual ~membership_callbacks() = default;

  /// To a peer that is neither lost nor fenced.
  virtual void send(transport::rank_t to, const membership_message& message) = 0;

  /// From now on nothing of this incarnation is taken in: ends the connection (what was sent to it
  /// before still goes out, if it can), and all that waits for it fails with `why`. What it holds
  /// is kept until `apply`. Once for each incarnation; perhaps for one that was never connected.
  virtual void fence(const member& who, const fault& why) = 0;

  /// Makes a newcomer reachable. If that fails, say `lost` afterwards.
  virtual void connect(const member& who) = 0;

  /// The changes of one epoch, now in force: drops what the removed ones held, tells upwards.
  virtual void apply(const std::vector<membership_change>& changes,
                     const membership_view& view) = 0;

  /// Leader: `who` is in. May be said again by the next leader: the second time means nothing.
  virtual void welcome(const member& who, const membership_view& view) = 0;

  /// Leader: an admission came to nothing.
  virtual void refused(const member& who, const fault& why) = 0;

  /// This node has left, as it asked. Nothing is called after it.
  virtual void left() = 0;

  /// This node's part in the job is over: `fenced` or `peer_lost`. Nothing is called after it.
  virtual void ended(const fault& why) = 0;
};

}  // namespace troupe
