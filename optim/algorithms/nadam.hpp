#pragma once

#include "troupe/optim/algorithms/stepwise.hpp"

namespace troupe {

/// Options of `nadam`; defaults and limits are those of torch.optim.NAdam of PyTorch 2.11.
struct nadam_options : stepwise_options<nadam_options> {
  nadam_options(double lr = 2e-3) : lr_(lr) {}

  /// Learning rate; at least 0.
  TORCH_ARG(double, lr);
  /// Decay rates of the averages of the gradient and of its square; each at least 0 and less
  /// than 1.
  TORCH_ARG(number_pair, betas) = {0.9, 0.999};
  /// Added to the root in the denominator; at least 0.
  TORCH_ARG(double, eps) = 1e-8;
  /// L2 penalty: this times the parameter is added to the gradient; at least 0.
  TORCH_ARG(double, weight_decay) = 0;
  /// How fast the momentum grows from half of beta1 to all of it; at least 0.
  TORCH_ARG(double, momentum_decay) = 4e-3;
  /// Decays the parameter itself instead of its gradient, as AdamW does.
  TORCH_ARG(bool, decoupled_weight_decay) = false;
  /// Maximizes the loss.
  TORCH_ARG(bool, maximize) = false;
  TROUPE_EACH_FIELD(lr, betas, eps, weight_decay, momentum_decay, decoupled_weight_decay, maximize)

  /// Throws invalid_argument, which names the option and its value.
  void check() const;
};

/// What `nadam` knows of a parameter. The tensors have its shape, dtype and device.
struct nadam_state : stepwise_state<nadam_state> {
  TORCH_ARG(std::int64_t, step) = 0;
  /// The product of all mu up to this step. A double, where PyTorch uses its default dtype: with
  /// float32 there, steps differ from PyTorch's by about 1e-7 of their length.
  TORCH_ARG(double, mu_product) = 1;
  /// Running average of the gradient: m in the algorithm box of PyTorch.
  TORCH_ARG(at::Tensor, exp_avg);
  /// Running average of the squared gradient: v in the box.
  TORCH_ARG(at::Tensor, exp_avg_sq);
  TROUPE_EACH_FIELD(step, mu_product, exp_avg, exp_avg_sq)
};

/// Step t of NAdam, in place and without autograd. `parameter`, of any real or complex dtype, and
/// `gradient` have the same shape, dtype and device. Source: the algorithm box of
/// torch.optim.NAdam (PyTorch 2.11) after Dozat, "Incorporating Nesterov Momentum into Adam" (ICLR
/// 2016 workshop); decoupled weight decay after Loshchilov and Hutter (arXiv:1711.05101). With g
/// the gradient and mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2):
///
///     p = p - lr weight_decay p   if that is decoupled, else  g = g + weight_decay p
///     m = beta1 m + (1 - beta1) g
///     v = beta2 v + (1 - beta2) g^2
///     h = mu_t+1 m / (1 - mu_1 ... mu_t+1) + (1 - mu_t) g / (1 - mu_1 ... mu_t)
///     p = p - lr h / (sqrt(v / (1 - beta2^t)) + eps)
///
/// Throws invalid_argument for a sparse gradient.
void nadam_step(const at::Tensor& parameter, const at::Tensor& gradient, nadam_state& state,
                const nadam_options& options);

/// NAdam as an optimizer of libtorch, which lacks it: torch.optim.NAdam without `capturable` and
/// `differentiable`.
class nadam : public stepwise_optimizer<nadam, nadam_options, nadam_state, &nadam_step> {
public:
  using stepwise_optimizer::stepwise_optimizer;
};

template <>
struct optimizer_traits<nadam> : stepwise_traits<nadam_options, nadam_state> {};

}  // namespace troupe
