#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "troupe/actors/future/future.hpp"
#include "troupe/autograd/context/pass_worker.hpp"
#include "troupe/autograd/pass/pass_messages.hpp"

namespace troupe {

class node_core;
class peer_table;

}  // namespace troupe

namespace troupe::autograd::detail {

/// Tells the starter of a backward pass when one of its rounds is over: which steps are under way,
/// and how far the nodes have come. Thread-safe.
///
/// A node that has run a step reports that it is over, and which steps it has caused on other
/// nodes. Reports arrive in any order. The round is over when every step that was caused is over:
/// as long as one is not, either it is known to be under way, or the step that caused it has not
/// been reported yet and so is itself under way as far as is known here; and so on, back to the
/// first step, which is known from the beginning.
///
/// This is termination detection for a diffusing computation, akin to that of Dijkstra and Scholten
/// ("Termination detection for diffusing computations", 1980). There a node acknowledges the
/// message that engaged it once all its own messages are acknowledged, so that the tree of
/// engagements collapses towards the root. Here every step is credited to the root itself: a report
/// opens the steps that it caused and closes its own. It travels one hop, no node waits for
/// another, and the root knows which nodes matter when one is lost.
class pass_tracker final : public started_pass {
public:
  /// Begins with the step `first` of this node.
  pass_tracker(node_core& here, std::uint64_t first);

  /// A step is over. If it was the last, `over` becomes ready within this call. A report that comes
  /// twice, or after the end, is ignored.
  void add(step_report&& one);

  void fail(std::exception_ptr why) override;

  /// Fails with peer_lost when that node has a step under way, or has caused one: the call for it
  /// may not have been delivered.
  void evict(const peer& lost) override;

  /// Ready when the round is over or has failed.
  const future<void>& over() const noexcept { return over_; }

  /// The latest of each node, by rank. To be read once the round is over.
  const std::unordered_map<std::uint32_t, pass_standing>& standings() const noexcept {
    return standings_;
  }

private:
  struct step {
    bool caused = false;  // as a report said
    bool over = false;
    std::uint32_t from = 0;  // ranks, once it is caused
    std::uint32_t to = 0;
    bool under_way() const noexcept { return caused && !over; }
  };

  void caused(std::uint64_t number, std::uint32_t from, std::uint32_t to);

  const peer_table& peers_;
  const future<void> over_;
  std::mutex mutex_;
  bool ended_ = false;
  std::unordered_map<std::uint64_t, step> steps_;
  std::size_t open_ = 0;  // steps of which one of both is known: caused or over
  std::unordered_map<std::uint32_t, pass_standing> standings_;
};

}  // namespace troupe::autograd::detail
