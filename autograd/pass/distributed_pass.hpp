#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/future/future.hpp"
#include "troupe/autograd/context/participant.hpp"
#include "troupe/autograd/pass/pass_options.hpp"

namespace troupe {

class node;

}  // namespace troupe

namespace troupe::autograd::detail {

/// Runs a backward pass from `roots`, scalars of this node that require gradients, on all nodes
/// that the graph leads to. Returns when all gradients are there; the steps of this node run on the
/// calling thread. Throws invalid_argument, and the error of the node where the pass fails.
void run_pass(const node& here, const std::shared_ptr<participant>& part,
              const std::vector<at::Tensor>& roots, const pass_options& how);

/// The same on the node's threads.
future<void> run_pass_async(const node& here, const std::shared_ptr<participant>& part,
                            const std::vector<at::Tensor>& roots, const pass_options& how);

/// What libtorch's own `backward` does, over nodes: begins with `gradient`, which has the sizes of
/// the root (undefined: one, and the root is a scalar), and adds the gradients of leaves to their
/// .grad, on all nodes. Mode smart. Not to be called within a pass of the same context.
void run_plain_pass(const node& here, const std::shared_ptr<participant>& part,
                    const at::Tensor& root, const at::Tensor& gradient, const pass_options& how);

/// Throws deadlock_error in a hook of a pass of that context on this node: another pass would wait
/// for the one that the hook belongs to.
void refuse_pass_within_itself(const node& here, const std::shared_ptr<participant>& part);

}  // namespace troupe::autograd::detail
