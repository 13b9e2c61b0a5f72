#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "troupe/autograd/local/backward_error.hpp"
#include "troupe/autograd/local/backward_options.hpp"
#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::autograd {

/// One backward pass over the part of a graph that is on this node, in steps: gradients arrive at
/// the plan's entries one after the other, and run() calls the nodes that have all of theirs. Nodes
/// and hooks are called as libtorch's engine calls them (Engine::evaluate_function of torch 2.11:
/// the same order, checks, sums, streams and thread state), so results are those of the engine, to
/// the last bit if every gradient arrives, in the order of its roots, before the first run().
///
/// Gradients of leaves go to the sink, never into .grad. The hooks of the leaf and of its
/// AccumulateGrad run around that; the node itself does not.
///
/// Different from the engine:
/// - Nodes from which no edge leads on, other than those of leaves, are called first.
/// - They do not wait for gradients of weights. While one is left, a long product with weights
///   (addmm, mm, convolution, of 2^22 multiplications or more for the weights' gradient) is called
///   for the gradients that lead on, and later for those of its weights and bias: once nothing
///   else is ready, or before something else adds to them (split_policy). Both are new nodes like
///   it, so a profiler sees two, with this thread as that of the forward call. What waits keeps at
///   most 256 MiB alive. A product is called once, as it is, if the node or what it has saved has
///   hooks, with create_graph, in anomaly mode, and where sums could be made in another order
///   otherwise: if more than what was made right before lies between it and weights that others
///   add to, too.
/// - Hooks that are to run after a leaf's .grad has been written (register_post_accumulate_grad_
///   hook) fail the pass that comes to the leaf: no .grad is written.
/// - No node sees the pass. Engine::queue_callback throws, and the error says to use
///   run_in_engine; get_current_graph_task_id() is -1, get_current_graph_task_keep_graph() true,
///   and every output counts as needed (task_should_compute_output); get_current_node() is null,
///   so nodes made by a pass in anomaly mode have no parent.
/// - Engine::is_checkpoint_valid() is true, as in backward(). A backward() that a node starts is a
///   pass of the engine and writes .grad, as it does within the engine.
/// - Nodes of all devices are called on the thread that calls run(), each on its own stream.
///   Warnings appear when they are raised.
///
/// One thread at a time. Several executors may run at once over graphs that share leaves, and
/// nodes if all keep the graph: nodes lock themselves; hooks of tensors are the user's, and may be
/// called by both at once.
class executor {
public:
  /// Whose thread-local settings (autocast, profiler, hooks of saved tensors, ...) the pass has:
  /// those of the thread that makes the executor, as backward() has those of its caller, or those
  /// of the thread that calls run() or arrive(), which saves the time to set them.
  enum class settings : std::uint8_t { of_maker, of_caller };

  /// Throws invalid_argument for a plan without entries.
  executor(backward_plan plan, backward_options options, gradient_sink sink,
           settings which = settings::of_maker);
  /// Drops what has arrived. Not to be called from within run().
  ~executor();
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  /// Takes all gradients for the entry of that number, one for each of its inputs; undefined ones
  /// stand for zeros, as in the engine. They must be ready on the current stream of their device.
  /// They are added up at once, but nothing runs. May be called by a node that run() calls. A
  /// gradient that was moved in and that nobody else holds may be written to.
  /// Throws, changing nothing: the pass' backward_error if it has failed; invalid_argument for an
  /// entry that does not exist or has its gradients, for a wrong number of them, or one that does
  /// not fit (shape, dtype, device). Throws a backward_error, and fails the pass, if libtorch
  /// cannot add them up.
  void arrive(std::size_t entry, std::vector<at::Tensor> gradients);

  /// Calls every node that has all its gradients, the one created last first, until there is none;
  /// returns done(). Then the current streams of this thread wait for the streams on which leaves
  /// and other ends of the graph were computed.
  /// Throws a backward_error for what a node, a hook or the sink throws: then the pass has failed,
  /// its gradients are dropped, and every further call throws the same. Throws invalid_argument,
  /// changing nothing, if called from within itself, or by a node or hook within a pass of
  /// libtorch's engine: nodes would take that pass' choice of what to compute for this one's.
  bool run();

  /// No gradients will arrive for these entries. Nodes that only they reach do not run; nodes that
  /// have all their other gradients run at the next run(). Throws, changing nothing: the pass'
  /// backward_error if it has failed; invalid_argument for an entry that does not exist or has its
  /// gradients.
  void leave_out(const std::vector<std::size_t>& entries);

  /// Is there a node that has some of its gradients and waits for others?
  bool blocked() const noexcept;

  /// Has every node of the plan run, but for those that were left out?
  bool done() const noexcept;
  /// The numbers of the entries whose gradients have not arrived, ascending.
  std::vector<std::size_t> awaited() const;
  /// Why the pass has failed; null: it has not.
  const backward_error* failure() const noexcept;

private:
  class pass;
  std::unique_ptr<pass> pass_;
};

}  // namespace troupe::autograd
