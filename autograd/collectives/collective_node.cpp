#include "troupe/autograd/collectives/collective_node.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <string>
#include <utility>

namespace troupe::autograd::detail {

namespace {

class collective_node final : public torch::autograd::Node {
public:
  collective_node(const char* name, const std::vector<at::Tensor>& inputs,
                  transposed_collective transposed)
      : Node(torch::autograd::collect_next_edges(inputs)),
        name_(std::string("troupe::") + name),
        transposed_(std::move(transposed)) {}

  std::string name() const override { return name_; }

private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined())
        gradients[i] = input_metadata(static_cast<std::uint32_t>(i)).zeros_like();
    return transposed_(gradients);
  }

  const std::string name_;
  const transposed_collective transposed_;
};

}  // namespace

void record_collective(const char* name, const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, transposed_collective transposed) {
  if (!at::GradMode::is_enabled() || outputs.empty() ||
      !torch::autograd::isDifferentiableType(outputs[0].scalar_type()))
    return;
  const std::shared_ptr<torch::autograd::Node> node(
      new collective_node(name, inputs, std::move(transposed)), torch::autograd::deleteNode);
  for (const auto& one : outputs) torch::autograd::set_history(one, node);
}

}  // namespace troupe::autograd::detail
