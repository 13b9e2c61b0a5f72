#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "autograd/pass_messages.hpp"

namespace troupe::autograd::detail {

/// What the node that has started a backward pass knows of it: which steps are under way, and where
/// nodes stand. Thread-safe.
///
/// Who runs a step tells when it is over, and which steps it has caused on other nodes. These words
/// come in any order. The pass is over when all steps that were caused are over: as long as one is
/// not, either it is known to be under way, or the one that has caused it has not told of it yet,
/// and is under way itself as far as is known here; and so on back to the first one, which is known
/// from the beginning.
class pass_watch {
public:
  /// Begins with the step `first` of this node.
  pass_watch(std::shared_ptr<engine> driver, std::uint64_t first, std::uint32_t here);

  /// A step is over. Who waits hears of it at once when it was the last.
  void add(step_report&& one);

  /// It has failed.
  void fail(std::exception_ptr why);

  /// A node is lost. Fails when it has a step under way, or has sent one that may not have come.
  void bury(const peer& whom);

  /// Ready when it is over, or has failed.
  const future<void>& over() const noexcept { return over_; }

  /// The latest of each node. Once it is over.
  const std::unordered_map<std::uint32_t, pass_standing>& standings() const noexcept {
    return standings_;
  }

private:
  struct way {
    std::uint32_t from;
    std::uint32_t to;
  };

  const future<void> over_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, way> under_way_;
  std::unordered_set<std::uint64_t> early_;  // over, but not known to have been caused
  std::unordered_map<std::uint32_t, pass_standing> standings_;
};

}  // namespace troupe::autograd::detail
