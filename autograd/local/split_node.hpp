#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace troupe::autograd::detail {

/// Two nodes that together do what one does: the two halves of a backward pass that "Zero Bubble
/// Pipeline Parallelism" (Qi et al., 2023) names B, the gradients of the inputs, and W, those of
/// the weights. Each has some of the node's edges at their places, and invalid ones at the others.
/// libtorch's operations compute gradients for valid edges only.
struct split_node {
  std::shared_ptr<torch::autograd::Node> input_part, weight_part;
  /// What the weight part keeps alive: the storage of the gradient and of what it has saved.
  std::size_t weight_part_bytes;
};

using edge_choice = std::function<bool(std::size_t edge)>;

/// A product with weights, of one of libtorch's classes AddmmBackward0, MmBackward0 and
/// ConvolutionBackward0: operations whose gradients take long and do not depend on each other.
bool is_product(const torch::autograd::Node& node);

/// How many multiplications such a node makes to compute the gradient at an edge, which must be
/// valid, from `gradient`; 0 for what is added to the product.
double multiplications(const torch::autograd::Node& node, std::size_t edge,
                       const at::Tensor& gradient);

/// Splits such a node in two, which hold what they need of what it has saved. Each is to be called
/// once, with `gradient`, on the stream that is current now. Returns none if hooks unpack what the
/// node has saved, since they are to run once; if the gradient itself would be an output of the
/// input part, where others might write to it; and if libtorch would compute some output twice.
/// Throws what unpacking throws: the node has been released, or a saved tensor was written to. The
/// caller makes sure that nobody else releases the node meanwhile. Writes to no other node: several
/// threads may split nodes of one graph.
std::optional<split_node> split(const torch::autograd::Node& node, const at::Tensor& gradient,
                                const edge_choice& is_input_edge);

}  // namespace troupe::autograd::detail
