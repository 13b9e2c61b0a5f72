#include "troupe/autograd/local/backward_plan.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <numeric>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::autograd {

namespace {

void check(const entry& e) {
  if (!e.node)
    throw invalid_argument(
        "an entry of a backward pass needs a node: does the tensor require a gradient?");
  const auto inputs = e.node->num_inputs();
  if (inputs == 0)
    throw invalid_argument("gradients cannot enter at " + e.node->name() + ": it has no inputs");
  for (const auto nr : e.inputs)
    if (nr >= inputs)
      throw invalid_argument("gradients cannot enter at input " + std::to_string(nr) + " of " +
                             e.node->name() + ": it has " + std::to_string(inputs));
}

}  // namespace

std::size_t backward_plan::add(entry from, const visitor& reached) {
  check(from);
  if (from.inputs.empty()) {
    from.inputs.resize(from.node->num_inputs());
    std::iota(from.inputs.begin(), from.inputs.end(), 0u);
  }
  std::vector<node_ptr> found;
  if (++awaited_[from.node.get()] == 1) found.push_back(from.node);
  while (!found.empty()) {
    const auto node = std::move(found.back());
    found.pop_back();
    bool leads_on = false;
    for (const auto& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      leads_on = true;
      if (++awaited_[edge.function.get()] == 1) found.push_back(edge.function);
    }
    if (!leads_on) {
      const bool leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get()) != nullptr;
      (leaf ? leaves_ : ends_).push_back(node);
    }
    if (reached) reached(node);
  }
  entries_.push_back(std::move(from));
  return entries_.size() - 1;
}

std::size_t backward_plan::awaited(const torch::autograd::Node* node) const {
  const auto it = awaited_.find(node);
  return it == awaited_.end() ? 0 : it->second;
}

}  // namespace troupe::autograd
