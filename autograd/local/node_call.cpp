#include <ATen/DeviceAccelerator.h>
#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "troupe/autograd/local/node_call_internal.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/current_stream.hpp"

namespace troupe::autograd::detail {

namespace {

variable_list call_pre_hooks(Node& node, variable_list gradients) {
  for (const auto& hook : node.pre_hooks()) gradients = (*hook)(gradients);
  return gradients;
}

void check_for_nan(const Node& node, const variable_list& outputs) {
  const at::AutoGradMode no_graph(false);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    const c10::DeviceGuard on(outputs[i].device());
    if (at::isnan(outputs[i]).any().item<bool>())
      throw std::runtime_error("Function '" + node.name() + "' returned nan values in its " +
                               std::to_string(i) + "th output.");
  }
}

}  // namespace

std::optional<c10::Stream> current_stream(const at::Tensor& t) {
  if (!t.defined() || !at::accelerator::isAccelerator(t.device().type())) return std::nullopt;
  return troupe::current_stream(t.device());
}

void wait_for(const InputBuffer& gradients, const std::optional<c10::Stream>& on) {
  for (std::size_t i = 0; i < gradients.ready_events.size(); ++i) {
    const auto& event = gradients.ready_events[i];
    if (!event || !gradients.buffer[i].defined()) continue;
    const auto& produced_on = gradients.ready_streams[i];
    const auto device = gradients.buffer[i].device();
    if (on && on != produced_on) on->wait(*event);
    if (on && on->device() == device) continue;
    const auto elsewhere = troupe::current_stream(device);
    if (elsewhere != produced_on) elsewhere.wait(*event);
  }
}

variable_list call_tensor_hooks(Node& node, variable_list gradients) {
  for (const auto& hook : node.tensor_pre_hooks()) gradients = (*hook)(gradients);
  for (const auto& [output, hook] : node.retains_grad_hooks()) gradients = (*hook)(gradients);
  return gradients;
}

variable_list call(Node& node, variable_list gradients, const backward_options& options) {
  gradients = call_pre_hooks(node, std::move(gradients));
  if (!options.keep_graph) node.will_release_variables();
  const bool is_watched = !node.post_hooks().empty();
  auto inputs = is_watched ? gradients : variable_list();
  auto outputs = node(std::move(gradients));
  torch::autograd::validate_outputs(node.next_edges(), outputs, [&](const std::string& what) {
    return "Function " + node.name() + " returned an " + what;
  });
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, inputs);
  if (!options.keep_graph) node.release_variables();
  if (outputs.size() != node.num_outputs())
    throw invalid_argument("a post hook of " + node.name() + " returned " +
                           std::to_string(outputs.size()) + " gradients instead of " +
                           std::to_string(node.num_outputs()));
  using torch::autograd::AnomalyMode;
  if (AnomalyMode::is_enabled() && AnomalyMode::should_check_nan()) check_for_nan(node, outputs);
  return outputs;
}

void hand_over(AccumulateGrad& leaf, variable_list gradients, const gradient_sink& sink) {
  refuse_hooks_on_grad(leaf);
  gradients = call_pre_hooks(leaf, std::move(gradients));
  if (gradients.size() != 1)
    throw invalid_argument("a hook of a leaf returned " + std::to_string(gradients.size()) +
                           " gradients instead of 1");
  const bool is_watched = !leaf.post_hooks().empty();
  if (gradients[0].defined() && leaf.variable.requires_grad())
    sink(leaf.variable, is_watched ? gradients[0] : std::move(gradients[0]));
  for (const auto& hook : leaf.post_hooks()) (*hook)({}, gradients);
}

void refuse_hooks_on_grad(Node& leaf) {
  if (leaf.tensor_post_acc_grad_hooks())
    throw invalid_argument(
        "a leaf has a hook that is to run after its .grad was written, which this backward pass "
        "does not do: remove the hook, or use a hook of the tensor (register_hook)");
}

void fit(const entry& at, variable_list& gradients) {
  if (gradients.size() != at.inputs.size())
    throw invalid_argument(std::to_string(gradients.size()) + " gradients for " + at.node->name() +
                           ", where " + std::to_string(at.inputs.size()) + " enter");
  torch::autograd::edge_list edges;
  edges.reserve(at.inputs.size());
  for (const auto nr : at.inputs) edges.emplace_back(at.node, nr);
  try {
    torch::autograd::validate_outputs(edges, gradients, [&](const std::string& what) {
      return "gradients for " + at.node->name() + ": " + what;
    });
  } catch (const c10::Error& e) {
    throw invalid_argument(e.what_without_backtrace());
  }
}

}  // namespace troupe::autograd::detail
