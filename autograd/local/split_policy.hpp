#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "troupe/autograd/local/backward_plan.hpp"
#include "troupe/autograd/local/split_node.hpp"
#include "troupe/autograd/local/deferred_weight_gradients.hpp"

namespace troupe::autograd::detail {

/// What comes first of a node that is called in two parts, and what has time.
struct two_calls {
  node_ptr first;
  waiting_rest rest;
};

/// Which nodes of one pass are called in two parts, so that gradients which somebody waits for do
/// not wait for those of weights: products (is_product) that lead to an end of the graph that is no
/// leaf, and with other edges to leaves that take long. One thread at a time; the plan must outlive
/// it.
///
/// Sums are made in the order of the engine if rests run in the order in which they were chosen,
/// each with all that it leads to, and before anybody else adds to something that it leads to:
/// between a product and its weights there is either nothing that the engine would call later than
/// at once, or nothing else adds to it.
class split_choice {
public:
  explicit split_choice(const backward_plan& plan) : plan_(plan) {}

  /// The node in two parts, whose rest has the edges that lead to leaves only; none: it is called
  /// as it is, as every node with hooks, and in anomaly mode. To be asked when the node's turn has
  /// come, with the gradients for it, and the bytes that rests keep already. Looks at the
  /// graph only for a product that takes long. Throws as split() does.
  std::optional<two_calls> choose(torch::autograd::Node& node,
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
