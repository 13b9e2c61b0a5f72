#pragma once

#include <vector>

#include "troupe/actors/membership/membership_messages.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

/// What a membership asks of the node that it runs in. Called inside of its functions, on their
/// thread. An implementation must neither throw nor call the membership.
class membership_callbacks {
public:
  virtual ~membership_callbacks() = default;

  /// Sends to a peer that is neither lost nor fenced.
  virtual void send(transport::rank_t to, const membership_message& message) = 0;

  /// Fences that incarnation: nothing of it is taken in any more, the connection ends (what was
  /// sent to it before still goes out, if it can), and everything that waits for it fails with
  /// `why`. Its resources are kept until `apply`. Once for each incarnation, perhaps for one that
  /// was never connected.
  virtual void fence(const member& who, const fault& why) = 0;

  /// Connects to a joiner. If that fails, `membership::lost` has to be called afterwards.
  virtual void connect(const member& who) = 0;

  /// The changes of one epoch are in force: releases the resources of removed members, notifies
  /// watchers.
  virtual void apply(const std::vector<membership_change>& changes,
                     const membership_view& view) = 0;

  /// Leader: `who` has been admitted. The next leader may call it again, which has no effect.
  virtual void welcome(const member& who, const membership_view& view) = 0;

  /// Leader: a join has failed.
  virtual void refused(const member& who, const fault& why) = 0;

  /// This node has left, as it asked. The last call.
  virtual void left() = 0;

  /// This node's part in the job is over: `fenced` or `peer_lost`. The last call.
  virtual void ended(const fault& why) = 0;
};

}  // namespace troupe
