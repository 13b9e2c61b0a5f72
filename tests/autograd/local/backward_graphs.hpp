#pragma once

// Random autograd graphs, gone through by libtorch's engine and by ours.

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/autograd/local/executor.hpp"

namespace troupe::test {

/// A graph with its leaves, and where gradients enter it.
struct backward_graph {
  std::vector<at::Tensor> leaves;
  std::vector<at::Tensor> retained;  ///< tensors inside the graph that keep their gradient
  std::vector<at::Tensor> roots;     ///< those of one node are neighbours
  std::vector<at::Tensor> gradients;
  std::vector<autograd::node_ptr> accumulators;  ///< of leaves with hooks: edges own them alone

  torch::autograd::edge_list edges() const;
  /// The roots, each an entry or, if `grouped`, those of one node together.
  autograd::backward_plan plan(bool grouped) const;
  /// The gradients of the entries of plan(grouped).
  std::vector<std::vector<at::Tensor>> arrivals(bool grouped) const;
};

struct graph_kind {
  at::ScalarType dtype = at::kDouble;
  int operations = 14;
  /// Only what has a second derivative, and no hooks of AccumulateGrad nodes themselves.
  bool smooth = false;
};

/// The same graph for the same seed, down to the bits of its leaves. Hooks append to `log`, which
/// must outlive it; those of AccumulateGrad nodes themselves begin with "accumulator".
backward_graph random_graph(std::uint64_t seed, const graph_kind& kind,
                            std::vector<std::string>& log);

/// What a pass has computed: one gradient per leaf, undefined where there was none.
using leaf_gradients = std::vector<at::Tensor>;

/// By the engine, as backward() does.
leaf_gradients engine_backward(const backward_graph& graph,
                               const autograd::backward_options& options = {});

/// Puts what reaches the sink at the place of its leaf, once.
autograd::gradient_sink sink_into(leaf_gradients& into, const std::vector<at::Tensor>& leaves);

/// By an executor to which all arrives at once.
leaf_gradients executor_backward(const backward_graph& graph, bool grouped = false,
                                 const autograd::backward_options& options = {});

bool same_bits(const at::Tensor& a, const at::Tensor& b);
/// |a - b| over |b|, by the Euclidean norm; 0 for two undefined ones, infinity for one.
double distance(const at::Tensor& a, const at::Tensor& b);

/// The names of the nodes that are called while it lives, in their order; without those that only
/// one of engine and executor calls. One at a time.
class called_nodes {
public:
  called_nodes();
  ~called_nodes();
  std::vector<std::string> names() const;

private:
  at::CallbackHandle handle_;
};

}  // namespace troupe::test
