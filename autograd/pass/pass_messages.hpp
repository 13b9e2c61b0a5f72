#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "troupe/actors/remote/actor_interface.hpp"
#include "troupe/autograd/pass/pass_options.hpp"

namespace troupe::autograd::detail {

/// A backward pass, as all nodes of the context know it.
struct pass_info {
  std::uint64_t context = 0;
  std::uint64_t number = 0;   ///< unique in the job
  std::uint32_t starter = 0;  ///< the rank that is notified of each step
  pass_mode mode = pass_mode::smart;
  bool keep_graph = false;
  bool create_graph = false;
  bool into_grad = false;  ///< gradients of leaves are added to their .grad, on all nodes
};
TROUPE_MESSAGE_EXTERN(pass_info, context, number, starter, mode, keep_graph, create_graph,
                      into_grad)

/// How far a node has come in a pass.
struct pass_standing {
  std::uint32_t rank = 0;
  std::uint64_t arrivals = 0;  ///< of gradients so far: of two reports, the greater is later
  std::vector<std::uint64_t> awaited;  ///< messages whose gradients have not arrived
  bool blocked = false;  ///< some function has some of its gradients, and waits for others
};
TROUPE_MESSAGE_EXTERN(pass_standing, rank, arrivals, awaited, blocked)

/// A step that another one has caused, on the node of that rank.
struct next_step {
  std::uint64_t step = 0;  ///< its number, unique in the job
  std::uint32_t rank = 0;
};
TROUPE_MESSAGE_EXTERN(next_step, step, rank)

/// A step is over, and has caused these.
struct step_report {
  std::uint64_t step = 0;
  std::vector<next_step> caused;
  pass_standing standing;
};
TROUPE_MESSAGE_EXTERN(step_report, step, caused, standing)

// Steps. The first step of a pass has the number of the pass. A step is answered when it is over
// itself, while the steps that it has caused may still run.

/// A walk begins at these roots, of this node's graph: which messages do they depend on?
struct walk_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
};
TROUPE_LOCAL_MESSAGE(walk_from_roots)

/// The walk has come to these messages that the node has sent: they take part.
struct mark_sends {
  pass_info pass;
  std::uint64_t step = 0;
  std::vector<std::uint64_t> numbers;
};
TROUPE_MESSAGE_EXTERN(mark_sends, pass, step, numbers)

/// The walk is over. Has the nodes of these ranks, which are blocked, leave out what it has not
/// marked; so do those that get gradients from them.
struct resume_all {
  pass_info pass;
  std::vector<std::uint32_t> ranks;
};
TROUPE_LOCAL_MESSAGE(resume_all)

/// The same for one node.
struct resume {
  pass_info pass;
  std::uint64_t step = 0;
};
TROUPE_MESSAGE_EXTERN(resume, pass, step)

/// The gradients begin at these roots.
struct run_from_roots {
  pass_info pass;
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> gradients;  ///< of the roots; empty: ones
};
TROUPE_LOCAL_MESSAGE(run_from_roots)

/// The gradients of a message that the node has sent.
struct gradients_arrive {
  pass_info pass;
  std::uint64_t step = 0;
  std::uint64_t number = 0;
  bool walked = false;  ///< the walk is over: gradients come for marked messages only
  std::vector<at::Tensor> gradients;
};
TROUPE_MESSAGE_EXTERN(gradients_arrive, pass, step, number, walked, gradients)

/// The pass has failed on some node.
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

}  // namespace troupe::autograd::detail
