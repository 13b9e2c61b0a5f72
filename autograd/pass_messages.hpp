#pragma once

#include "actors/node.hpp"

namespace troupe::autograd {

/// How a backward pass finds out which messages take part in it.
enum class pass_mode : std::uint8_t {
  /// All nodes work out first on which messages the roots really depend. Always right; takes a walk
  /// over the nodes before the pass.
  smart,
  /// All messages of the context take part. A pass from roots that leave some of them out is not
  /// completed, and fails.
  fast,
};

namespace detail {

/// A backward pass, as all nodes of the context know it.
struct pass_info {
  std::uint64_t context = 0;
  std::uint64_t number = 0;  ///< in the whole job
  pass_mode mode = pass_mode::smart;
  bool keep_graph = false;
  bool create_graph = false;
};
TROUPE_MESSAGE(pass_info, context, number, mode, keep_graph, create_graph)

/// Where a node stands in a pass.
struct pass_standing {
  std::uint32_t rank = 0;
  std::uint64_t arrivals = 0;          ///< of gradients, so far: the greatest is the latest word
  std::vector<std::uint64_t> awaited;  ///< messages whose gradients have not come
};
TROUPE_MESSAGE(pass_standing, rank, arrivals, awaited)

/// The latest of each node.
class pass_report {
public:
  void add(pass_standing&& one);
  void merge(pass_report&& other);
  const std::vector<pass_standing>& all() const noexcept { return all_; }

private:
  friend constexpr auto troupe_fields(const pass_report*) {
    return std::make_tuple(&pass_report::all_);
  }
  std::vector<pass_standing> all_;
};

/// The roots, of this node's graph. Never leaves the node. Answered when all nodes know which of
/// their messages take part.
struct walk_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
};
TROUPE_MESSAGE(walk_from_roots, pass, roots)

/// These of the node's messages take part. Answered like `walk_from_roots`.
struct mark_sends {
  pass_info pass;
  std::vector<std::uint64_t> numbers;
};
TROUPE_MESSAGE(mark_sends, pass, numbers)

/// The roots' gradients are one. Never leaves the node. Answered when all that follows has run.
struct run_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
};
TROUPE_MESSAGE(run_from_roots, pass, roots)

/// The gradients of a message of this node have come. Answered like `run_from_roots`.
struct gradients_arrive {
  pass_info pass;
  std::uint64_t number = 0;
  std::vector<at::Tensor> gradients;
};
TROUPE_MESSAGE(gradients_arrive, pass, number, gradients)

/// The pass has failed somewhere.
struct forget_pass {
  std::uint64_t number = 0;
};
TROUPE_MESSAGE(forget_pass, number)

/// A call of this actor's to another node has an answer.
struct call_ended {
  std::uint64_t step = 0;
  pass_report report;
  caf::error failure;
};
TROUPE_MESSAGE(call_ended, step, report, failure)

/// Runs one node's part in the passes of a context.
using pass_actor =
    actor<answers<walk_from_roots, pass_report>, answers<mark_sends, pass_report>,
          answers<run_from_roots, pass_report>, answers<gradients_arrive, pass_report>,
          accepts<forget_pass>, accepts<call_ended>>;

}  // namespace detail

}  // namespace troupe::autograd
