#pragma once

#include <torch/csrc/autograd/function.h>

#include <functional>
#include <memory>
#include <optional>

namespace troupe::autograd::detail {

/// Two nodes that together do what one does: `first` has some of its edges, `rest` the others, each
/// at its place, and invalid ones at the places of the other's. libtorch's operations compute
/// gradients for valid edges only.
struct split_node {
  std::shared_ptr<torch::autograd::Node> first, rest;
  std::size_t rest_keeps;  ///< bytes: the storage of the gradient and of what `rest` has saved
};

using edge_choice = std::function<bool(std::size_t edge)>;

/// A product with weights, of one of libtorch's classes AddmmBackward0, MmBackward0 and
/// ConvolutionBackward0: those where gradients of one operation take long and need nothing of each
/// other.
bool is_product(const torch::autograd::Node& node);

/// How many multiplications such a node makes for the gradient at an edge, which must be valid,
/// from `gradient`; 0 for what is added to the product.
double multiplications(const torch::autograd::Node& node, std::size_t edge,
                       const at::Tensor& gradient);

/// Splits such a node in two that hold what they need of what it has saved, and are to be called on
/// the stream that is current, once each, with `gradient`. None if hooks unpack what it has saved,
/// which are to run once; if the gradient itself would be an output of `first`, where others might
/// write to it; and if libtorch would make some output twice. Throws what unpacking throws: that
/// the node has been released, that a saved tensor was written to. The caller sees to it that
/// nobody else releases the node meanwhile. Writes to no other node: several threads may split
/// nodes of one graph.
std::optional<split_node> split(const torch::autograd::Node& node, const at::Tensor& gradient,
                                const edge_choice& is_first);

}  // namespace troupe::autograd::detail
