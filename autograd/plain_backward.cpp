// libtorch's `Tensor::backward` follows the graph to other nodes where a default_context is open.

#include "troupe/autograd/plain_backward.hpp"

#include <ATen/core/VariableHooksInterface.h>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/autograd/default_scope.hpp"
#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::autograd::detail {

namespace {

using at::TensorBase;

// The message from which a tensor of the graph came, in a default context whose scope is open;
// nullptr: there is none. Throws invalid_argument if the graph leads to messages of other contexts
// too, since one pass runs in one context.
std::shared_ptr<recv_rpc_backward> received_by_default(const at::Tensor& root) {
  const auto& node = root.grad_fn();
  if (!node) return nullptr;
  std::vector<std::shared_ptr<recv_rpc_backward>> found;
  backward_plan().add({node, {static_cast<std::uint32_t>(root.output_nr())}}, collect(found));
  std::shared_ptr<recv_rpc_backward> one;
  for (const auto& each : found)
    if (each->scope()) one = each;
  if (!one) return nullptr;
  for (const auto& each : found)
    if (each->context() != one->context())
      throw invalid_argument("the graph reaches tensors of two autograd contexts, " +
                             std::to_string(one->context()) + " and " +
                             std::to_string(each->context()) + " (from " + each->from().name +
                             "): detach those that were received before the last backward pass, or "
                             "in another context");
  return one;
}

// libtorch's own checks of a root.
void check_gradient(const at::Tensor& root, const at::Tensor& gradient) {
  if (!gradient.defined()) {
    if (root.numel() != 1)
      throw invalid_argument(
          "grad can be implicitly created only for scalar outputs: this one has " +
          std::to_string(root.numel()) + " elements. Sum them, or give backward() a gradient");
    if (root.is_complex())
      throw invalid_argument("grad can be computed only for real scalar outputs but got " +
                             std::string(c10::toString(root.scalar_type())) +
                             ": give backward() a gradient");
  } else if (gradient.sizes() != root.sizes()) {
    throw invalid_argument("the gradient given to backward() has other sizes than the tensor");
  }
}

bool goes_over_nodes(const at::Tensor& root, at::TensorList inputs, const at::Tensor& gradient,
                     bool keep_graph, bool create_graph) {
  const auto received = received_by_default(root);
  const auto scope = received ? received->scope() : nullptr;
  if (!scope) return false;
  if (!inputs.empty())
    throw invalid_argument(
        "backward(inputs) computes the gradients of some tensors only, and this graph goes over "
        "nodes, where all leaves get theirs: leave the inputs out, or use an autograd::context");
  check_gradient(root, gradient);
  scope->backward(received->context(), root, gradient, keep_graph, create_graph);
  return true;
}

// All but `_backward` is libtorch's own.
class hooks final : public at::impl::VariableHooksInterface {
public:
  explicit hooks(at::impl::VariableHooksInterface& own) : own_(own) {}

  void _backward(const at::Tensor& root, at::TensorList inputs,
                 const std::optional<at::Tensor>& gradient, std::optional<bool> keep_graph,
                 bool create_graph) const override {
    if (troupe::detail::current_context() != 0 &&
        goes_over_nodes(root, inputs, gradient.value_or(at::Tensor()), keep_graph.value_or(false),
                        create_graph))
      return;
    own_._backward(root, inputs, gradient, keep_graph, create_graph);
  }

  TensorBase tensor_data(const TensorBase& t) const override { return own_.tensor_data(t); }
  TensorBase variable_data(const TensorBase& t) const override { return own_.variable_data(t); }
  const std::shared_ptr<torch::autograd::Node>& grad_fn(const TensorBase& t) const override {
    return own_.grad_fn(t);
  }
  unsigned _register_hook(const TensorBase& t,
                          std::function<TensorBase(const TensorBase&)> hook) const override {
    return own_._register_hook(t, std::move(hook));
  }
  void remove_hook(const TensorBase& t, unsigned at) const override { own_.remove_hook(t, at); }
  bool is_view(const TensorBase& t) const override { return own_.is_view(t); }
  const TensorBase& base(const TensorBase& t) const override { return own_.base(t); }
  const std::string& name(const TensorBase& t) const override { return own_.name(t); }
  bool is_leaf(const TensorBase& t) const override { return own_.is_leaf(t); }
  std::int64_t output_nr(const TensorBase& t) const override { return own_.output_nr(t); }
  void set_data(const TensorBase& t, const TensorBase& to) const override { own_.set_data(t, to); }
  TensorBase data(const TensorBase& t) const override { return own_.data(t); }
  std::int64_t _version(const TensorBase& t) const override { return own_._version(t); }
  void retain_grad(const TensorBase& t) const override { own_.retain_grad(t); }
  bool retains_grad(const TensorBase& t) const override { return own_.retains_grad(t); }
  void requires_grad_(const TensorBase& t, bool on) const override { own_.requires_grad_(t, on); }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op,
                                               c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    own_.basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& t) const override {
    return own_.grad_dtype(t);
  }
  void set_grad_dtype(const TensorBase& t,
                      const std::optional<c10::ScalarType>& dtype) const override {
    own_.set_grad_dtype(t, dtype);
  }

private:
  at::impl::VariableHooksInterface& own_;
};

// libtorch's library has set its own hooks by now. This runs before main, because libtorch's
// threads read the pointer without a lock. It is never undone, because tensors may outlive every
// static object.
bool take_place() {
  if (!at::impl::HasVariableHooks()) return false;
  at::impl::SetVariableHooks(new hooks(*at::impl::GetVariableHooks()));
  return true;
}

}  // namespace

const bool plain_backward_goes_over_nodes = take_place();

}  // namespace troupe::autograd::detail
