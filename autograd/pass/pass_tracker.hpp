#pragma once

#include <mutex>
#include <unordered_map>

#include "troupe/autograd/pass/pass_messages.hpp"

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
  pass_watch(node_core& here, std::uint64_t first);

  /// A step is over. Who waits hears of it at once when it was the last. What comes twice, or after
  /// the end, is nothing new.
  void add(step_report&& one);

  /// It has failed.
  void fail(std::exception_ptr why);

  /// A node is lost. Fails when it has a step under way, or has sent one that may not have come.
  void evict(const peer& whom);

  /// Ready when it is over, or has failed.
  const future<void>& over() const noexcept { return over_; }

  /// The latest of each node. Once it is over.
  const std::unordered_map<std::uint32_t, pass_standing>& standings() const noexcept {
    return standings_;
  }

private:
  struct step {
    bool caused = false;  // as somebody has told
    bool over = false;
    std::uint32_t from = 0;  // ranks, when it was caused
    std::uint32_t to = 0;
    bool under_way() const noexcept { return caused && !over; }
  };

  void caused(std::uint64_t number, std::uint32_t from, std::uint32_t to);

  const peer_table& peers_;
  const future<void> over_;
  std::mutex mutex_;
  bool ended_ = false;
  std::unordered_map<std::uint64_t, step> steps_;
  std::size_t open_ = 0;  // steps that are over or caused, but not both
  std::unordered_map<std::uint32_t, pass_standing> standings_;
};

}  // namespace troupe::autograd::detail
