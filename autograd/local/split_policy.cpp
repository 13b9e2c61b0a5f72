#include "troupe/autograd/local/split_policy.hpp"

#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "troupe/autograd/local/node_call_internal.hpp"

namespace troupe::autograd::detail {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {

/// For the gradient of the weights. Below this, two calls cost more than they gain: some 3 us, and
/// 10 more in a deep graph, where what the second call needs has left the caches.
constexpr double fewest_multiplications = 1 << 22;
/// Bytes. Gradients, and what nodes have saved, live longer if they wait.
constexpr std::size_t most_waiting = std::size_t(256) << 20;
/// Nodes that are searched for a way to an end. Others are taken to have one: a needless split does
/// no harm.
constexpr std::size_t most_looked_at = 4096;
/// Nodes between a product and its weights: a transpose, a view, a cast.
constexpr int longest_path_to_leaf = 4;

bool has_hooks(const Node& node) { return !node.pre_hooks().empty() || !node.post_hooks().empty(); }

}  // namespace

std::optional<split_call> split_policy::choose(Node& node, const std::vector<at::Tensor>& gradients,
                                               std::size_t waiting) {
  if (node.num_outputs() < 2 || !is_product(node) || !gradients.at(0).defined())
    return std::nullopt;
  const auto& gradient = gradients[0];
  if (has_hooks(node) || gradient.layout() != at::kStrided) return std::nullopt;
  if (torch::autograd::AnomalyMode::is_enabled()) return std::nullopt;
  std::vector<bool> is_weight_edge(node.num_outputs());
  path weights_lead_to;
  bool takes_long = false, is_awaited = false;
  for (std::size_t i = 0; i < is_weight_edge.size(); ++i) {
    const auto& edge = node.next_edge(i);
    if (!edge.is_valid()) continue;
    is_weight_edge[i] = leads_to_leaf(node, *edge.function, weights_lead_to);
    takes_long |= is_weight_edge[i] && multiplications(node, i, gradient) >= fewest_multiplications;
  }
  if (!takes_long) return std::nullopt;
  for (std::size_t i = 0; i < is_weight_edge.size(); ++i) {
    const auto& edge = node.next_edge(i);
    is_awaited |= edge.is_valid() && !is_weight_edge[i] && leads_to_end(*edge.function);
  }
  if (!is_awaited) return std::nullopt;
  auto parts = split(node, gradient, [&](std::size_t edge) { return !is_weight_edge[edge]; });
  if (!parts || waiting + parts->weight_part_bytes > most_waiting) return std::nullopt;
  return split_call{std::move(parts->input_part),
                    {std::move(parts->weight_part), gradients, parts->weight_part_bytes,
                     std::move(weights_lead_to)}};
}

// Depth-first search with an explicit stack. Remembers the answer for every node that it visits.
bool split_policy::leads_to_end(const Node& node) {
  if (leads_to_end_.size() > most_looked_at) return true;
  struct place {
    const Node* node;
    std::size_t next_edge;
  };
  std::vector<place> path;
  const auto enter = [&](const Node& one) {
    const bool is_new = leads_to_end_.try_emplace(&one, false).second;
    if (is_new) path.push_back({&one, 0});
  };
  enter(node);
  while (!path.empty()) {
    if (leads_to_end_.size() > most_looked_at) return true;
    auto& [at, next] = path.back();
    const auto& edges = at->next_edges();
    if (next < edges.size()) {
      const auto& edge = edges[next++];
      if (edge.is_valid()) enter(*edge.function);
      continue;
    }
    leads_to_end_[at] =
        is_end(*at) || std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
          return edge.is_valid() && leads_to_end_[edge.function.get()];
        });
    path.pop_back();
  }
  return leads_to_end_[&node];
}

// The engine calls the node that was created right before another one right after it, if that makes
// it ready (its order is that of sequence numbers, from the greatest down).
bool split_policy::leads_to_leaf(const Node& from, const Node& to, path& through) const {
  const auto before = through.size();
  const Node* at = &to;
  auto made = from.sequence_nr();
  bool at_once = true, alone = true;
  for (int steps = 0; steps < longest_path_to_leaf; ++steps) {
    through.push_back(at);
    alone &= plan_.awaited(at) == 1;
    if (dynamic_cast<const AccumulateGrad*>(at)) {
      if (at_once || alone) return true;
      break;
    }
    at_once &= plan_.awaited(at) == 1 && at->sequence_nr() + 1 == made;
    made = at->sequence_nr();
    if (at->num_outputs() != 1 || !at->next_edge(0).is_valid()) break;
    at = at->next_edge(0).function.get();
  }
  through.resize(before);
  return false;
}

}  // namespace troupe::autograd::detail
