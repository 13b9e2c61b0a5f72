#include "troupe/autograd/local/engine_run.hpp"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/autograd/local/node_call_internal.hpp"

namespace troupe::autograd {

using namespace detail;

namespace {

// A root whose next edges are the entries, to which it gives their gradients. Does what the
// engine's GraphRoot does, but takes undefined gradients too.
class entrance : public Node {
public:
  explicit entrance(variable_list gradients) : gradients_(std::move(gradients)) {}
  std::string name() const override { return "troupe::entrance"; }

protected:
  variable_list apply(variable_list&&) override { return std::move(gradients_); }

private:
  variable_list gradients_;
};

void check_ends(const backward_plan& plan, const std::vector<node_ptr>& stops) {
  const auto has = [](const std::vector<node_ptr>& nodes, const node_ptr& node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  for (const auto& one : stops)
    if (!has(plan.ends(), one))
      throw invalid_argument((one ? one->name() : "no node") +
                             " cannot be a stop: it is not an end of what is planned");
  for (const auto& one : plan.ends())
    if (!has(stops, one))
      throw invalid_argument("the graph ends at " + one->name() +
                             ", which libtorch's engine would not run: name it as a stop, or use "
                             "autograd::executor");
}

// The edge that the engine starts with. The root takes its stream from its input, so that is a
// gradient on a GPU if there is one.
torch::autograd::Edge enter(const backward_plan& plan, variable_list all, at::Tensor& input) {
  input = at::zeros({});
  for (const auto& one : all)
    if (one.defined() && !one.is_cpu() && input.is_cpu()) input = one;
  const std::shared_ptr<entrance> root(new entrance(std::move(all)), torch::autograd::deleteNode);
  root->add_input_metadata(input);
  for (const auto& at : plan.entries())
    for (const auto nr : at.inputs) root->add_next_edge({at.node, nr});
  return {root, 0};
}

}  // namespace

void run_in_engine(const backward_plan& plan, std::vector<std::vector<at::Tensor>> gradients,
                   const backward_options& options, const gradient_sink& sink,
                   const std::vector<node_ptr>& stops, const stop_sink& stop) {
  const auto& entries = plan.entries();
  if (entries.empty()) throw invalid_argument("a backward pass needs an entry");
  if (gradients.size() != entries.size())
    throw invalid_argument("gradients for " + std::to_string(gradients.size()) + " entries of " +
                           std::to_string(entries.size()));
  check_ends(plan, stops);
  for (const auto& leaf : plan.leaves()) refuse_hooks_on_grad(*leaf);
  const at::AutoGradMode grad_mode(options.create_graph);
  variable_list all;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    fit(entries[i], gradients[i]);
    std::move(gradients[i].begin(), gradients[i].end(), std::back_inserter(all));
  }
  gradients.clear();
  torch::autograd::edge_list wanted;
  for (const auto& leaf : plan.leaves()) wanted.emplace_back(leaf, 0);
  for (const auto& one : stops)
    for (std::uint32_t nr = 0; nr < one->num_inputs(); ++nr) wanted.emplace_back(one, nr);
  std::string operation;
  try {
    at::Tensor input;
    const auto root = enter(plan, std::move(all), input);
    auto& engine = torch::autograd::Engine::get_default_engine();
    auto got =
        engine.execute({root}, {input}, options.keep_graph, options.create_graph, false, wanted);
    auto next = got.begin();
    for (const auto& leaf : plan.leaves()) {
      operation = leaf->name();
      hand_over(dynamic_cast<AccumulateGrad&>(*leaf), {std::move(*next++)}, sink);
    }
    for (const auto& one : stops) {
      operation = one->name();
      const auto from = next;
      next += one->num_inputs();
      if (stop) stop(one, {std::make_move_iterator(from), std::make_move_iterator(next)});
    }
  } catch (...) {
    throw backward_error(operation, std::current_exception());
  }
}

}  // namespace troupe::autograd
