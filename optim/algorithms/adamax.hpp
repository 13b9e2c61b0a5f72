#pragma once

#include "troupe/optim/algorithms/stepwise.hpp"

namespace troupe {

/// Options of `adamax`; defaults and limits are those of torch.optim.Adamax of PyTorch 2.11.
struct adamax_options : stepwise_options<adamax_options> {
  adamax_options(double lr = 2e-3) : lr_(lr) {}

  /// Learning rate; at least 0.
  TORCH_ARG(double, lr);
  /// Decay rates of the gradient's average and of its infinity norm; each at least 0 and less
  /// than 1.
  TORCH_ARG(number_pair, betas) = {0.9, 0.999};
  /// Added to the gradient's absolute value; at least 0.
  TORCH_ARG(double, eps) = 1e-8;
  /// L2 penalty: this times the parameter is added to the gradient; at least 0.
  TORCH_ARG(double, weight_decay) = 0;
  /// Maximizes the loss.
  TORCH_ARG(bool, maximize) = false;
  TROUPE_EACH_FIELD(lr, betas, eps, weight_decay, maximize)

  /// Throws invalid_argument, which names the option and its value.
  void check() const;
};

/// What `adamax` knows of a parameter. The tensors have its shape, dtype and device.
struct adamax_state : stepwise_state<adamax_state> {
  TORCH_ARG(std::int64_t, step) = 0;
  /// Running average of the gradient: m in the algorithm box of PyTorch.
  TORCH_ARG(at::Tensor, exp_avg);
  /// Exponentially weighted infinity norm of the gradients: u in the box.
  TORCH_ARG(at::Tensor, exp_inf);
  TROUPE_EACH_FIELD(step, exp_avg, exp_inf)
};

/// Step t of Adamax, in place and without autograd. `parameter`, of any real or complex dtype, and
/// `gradient` have the same shape, dtype and device. Source: the algorithm box of
/// torch.optim.Adamax (PyTorch 2.11) after Kingma and Ba, "Adam: A Method for Stochastic
/// Optimization" (arXiv:1412.6980), algorithm 2; PyTorch adds eps. With g the gradient:
///
///     g = g + weight_decay p
///     m = beta1 m + (1 - beta1) g
///     u = max(beta2 u, |g| + eps)
///     p = p - lr m / ((1 - beta1^t) u)
///
/// Throws invalid_argument for a sparse gradient.
void adamax_step(const at::Tensor& parameter, const at::Tensor& gradient, adamax_state& state,
                 const adamax_options& options);

/// Adamax as an optimizer of libtorch, which lacks it: torch.optim.Adamax without `capturable` and
/// `differentiable`.
class adamax : public stepwise_optimizer<adamax, adamax_options, adamax_state, &adamax_step> {
public:
  using stepwise_optimizer::stepwise_optimizer;
};

template <>
struct optimizer_traits<adamax> : stepwise_traits<adamax_options, adamax_state> {};

}  // namespace troupe
