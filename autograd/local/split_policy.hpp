#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "troupe/autograd/local/backward_plan.hpp"
#include "troupe/autograd/local/deferred_weight_gradients.hpp"
#include "troupe/autograd/local/split_node.hpp"

namespace troupe::autograd::detail {

/// A node that is called in two parts: the first at once, the second when there is time.
struct split_call {
  node_ptr input_part;
  deferred_weight_gradient weight_part;
};

/// Decides which nodes of one pass are called in two parts, so that gradients which another node
/// waits for do not wait for those of weights. These are products (is_product) with an edge that
/// leads to an end of the graph that is no leaf, and with others, to leaves, that take long. One
/// thread at a time; the plan must outlive it.
///
/// The split is that of "Zero Bubble Pipeline Parallelism" (Qi et al., 2023) into B, the gradients
/// of a stage's inputs, and W, those of its weights, which may be computed later, in what would be
/// a bubble. There the layers of a model are split by its author; here it is found in the graph.
///
/// Sums keep the order of libtorch's engine, and so results their bits, if the weight parts run in
/// the order in which they were chosen, each with all that it leads to, and before anything else
/// adds to a node that it leads to. For that a product is split only where between it and its
/// weights there is either nothing that the engine would not call at once, or nothing to which
/// others add.
class split_policy {
public:
  explicit split_policy(const backward_plan& plan) : plan_(plan) {}

  /// The node in two parts, of which the weight part has the edges that lead to leaves only. None:
  /// it is called as it is, as is every node with hooks, and every one in anomaly mode. To be
  /// called when it is the node's turn, with its gradients, and with the bytes that weight parts
  /// keep alive already. Looks at the graph only for a product that takes long. Throws as split()
  /// does.
  std::optional<split_call> choose(torch::autograd::Node& node,
                                   const std::vector<at::Tensor>& gradients, std::size_t waiting);

private:
  using path = std::vector<const torch::autograd::Node*>;
  bool leads_to_end(const torch::autograd::Node& node);
  bool leads_to_leaf(const torch::autograd::Node& from, const torch::autograd::Node& to,
                     path& through) const;

  const backward_plan& plan_;
  std::unordered_map<const torch::autograd::Node*, bool> leads_to_end_;  // of those looked at
};

}  // namespace troupe::autograd::detail
