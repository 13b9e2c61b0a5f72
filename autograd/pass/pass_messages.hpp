#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/actors/node/node.hpp"

namespace troupe::autograd {

/// How a backward pass finds out which messages take part in it.
enum class pass_mode : std::uint8_t {
  /// The messages take part on which the roots really depend. Always right. Where the roots leave
  /// some out, and parts of a graph wait for those, a walk over the nodes finds out.
  smart,
  /// All messages of the context take part. A pass from roots that leave some of them out is not
  /// completed, and fails.
  fast,
};

namespace detail {

/// A backward pass, as all nodes of the context know it.
struct pass_info {
  std::uint64_t context = 0;
  std::uint64_t number = 0;   ///< in the whole job
  std::uint32_t starter = 0;  ///< the rank that hears of each step
  pass_mode mode = pass_mode::smart;
  bool keep_graph = false;
  bool create_graph = false;
  bool into_grad = false;  ///< gradients of leaves are added to their .grad, on all nodes
};
TROUPE_MESSAGE_EXTERN(pass_info, context, number, starter, mode, keep_graph, create_graph,
                      into_grad)

/// Where a node stands in a pass.
struct pass_standing {
  std::uint32_t rank = 0;
  std::uint64_t arrivals = 0;          ///< of gradients, so far: the greatest is the latest word
  std::vector<std::uint64_t> awaited;  ///< messages whose gradients have not come
  bool blocked = false;  ///< something has some of its gradients, and waits for others
};
TROUPE_MESSAGE_EXTERN(pass_standing, rank, arrivals, awaited, blocked)

/// A step of a pass that another one has caused, on the node of that rank.
struct next_step {
  std::uint64_t step = 0;  ///< its number, in the whole job
  std::uint32_t rank = 0;
};
TROUPE_MESSAGE_EXTERN(next_step, step, rank)

/// A step is over.
struct step_report {
  std::uint64_t step = 0;
  std::vector<next_step> caused;
  pass_standing standing;
};
TROUPE_MESSAGE_EXTERN(step_report, step, caused, standing)

// Steps. The first one has the number of the pass. Each is answered when it is over itself; what
// it has caused may go on.

/// The roots, of this node's graph: which of the node's messages do they depend on?
struct walk_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
};
TROUPE_LOCAL_MESSAGE(walk_from_roots)

/// These of the node's messages take part.
struct mark_sends {
  pass_info pass;
  std::uint64_t step = 0;
  std::vector<std::uint64_t> numbers;
};
TROUPE_MESSAGE_EXTERN(mark_sends, pass, step, numbers)

/// The walk is over: those that are blocked go on, and who gets gradients from them knows it too.
struct resume_all {
  pass_info pass;
  std::vector<std::uint32_t> ranks;
};
TROUPE_LOCAL_MESSAGE(resume_all)

/// The same for one of them.
struct resume {
  pass_info pass;
  std::uint64_t step = 0;
};
TROUPE_MESSAGE_EXTERN(resume, pass, step)

/// The roots' gradients: one if there are none.
struct run_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> gradients;
};
TROUPE_LOCAL_MESSAGE(run_from_roots)

/// The gradients of a message of this node have come.
struct gradients_arrive {
  pass_info pass;
  std::uint64_t step = 0;
  std::uint64_t number = 0;
  bool walked = false;  ///< gradients come for marked messages only
  std::vector<at::Tensor> gradients;
};
TROUPE_MESSAGE_EXTERN(gradients_arrive, pass, step, number, walked, gradients)

/// The pass has failed somewhere.
struct forget_pass {
  std::uint64_t context = 0;
  std::uint64_t number = 0;
};
TROUPE_MESSAGE_EXTERN(forget_pass, context, number)

/// The context is over.
struct leave_context {};
TROUPE_LOCAL_MESSAGE(leave_context)

/// Runs one node's part in the passes of a context.
using pass_actor =
    actor<answers<walk_from_roots, step_report>, answers<mark_sends, step_report>,
          answers<run_from_roots, step_report>, answers<gradients_arrive, step_report>,
          answers<resume_all, step_report>, answers<resume, step_report>, accepts<forget_pass>,
          accepts<leave_context>>;

}  // namespace detail

}  // namespace troupe::autograd
