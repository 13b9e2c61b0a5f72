#pragma once

#include "troupe/optim/algorithms/stepwise.hpp"

namespace troupe {

/// Options of `adadelta`; defaults and limits are those of torch.optim.Adadelta of PyTorch 2.11.
struct adadelta_options : stepwise_options<adadelta_options> {
  adadelta_options(double lr = 1.0) : lr_(lr) {}

  /// Factor of each change; at least 0.
  TORCH_ARG(double, lr);
  /// Decay rate of the running averages; from 0 to 1.
  TORCH_ARG(double, rho) = 0.9;
  /// Added to the averages before their roots are taken; at least 0.
  TORCH_ARG(double, eps) = 1e-6;
  /// L2 penalty: this times the parameter is added to the gradient; at least 0.
  TORCH_ARG(double, weight_decay) = 0;
  /// Maximizes the loss.
  TORCH_ARG(bool, maximize) = false;
  TROUPE_EACH_FIELD(lr, rho, eps, weight_decay, maximize)

  /// Throws invalid_argument, which names the option and its value.
  void check() const;
};

/// What `adadelta` knows of a parameter. The tensors have its shape, dtype and device.
struct adadelta_state : stepwise_state<adadelta_state> {
  TORCH_ARG(std::int64_t, step) = 0;
  /// Running average of the squared gradients: v in the algorithm box of PyTorch.
  TORCH_ARG(at::Tensor, square_avg);
  /// Running average of the squared changes: u in the box.
  TORCH_ARG(at::Tensor, acc_delta);
  TROUPE_EACH_FIELD(step, square_avg, acc_delta)
};

/// One step of Adadelta, in place and without autograd. `parameter`, of any real or complex dtype,
/// and `gradient` have the same shape, dtype and device. Source: the algorithm box of
/// torch.optim.Adadelta (PyTorch 2.11) after Zeiler, "ADADELTA: An Adaptive Learning Rate Method"
/// (arXiv:1212.5701), algorithm 1. With g the gradient:
///
///     g = g + weight_decay p
///     v = rho v + (1 - rho) g^2
///     d = sqrt(u + eps) / sqrt(v + eps) g
///     u = rho u + (1 - rho) d^2
///     p = p - lr d
///
/// Throws invalid_argument for a sparse gradient.
void adadelta_step(const at::Tensor& parameter, const at::Tensor& gradient, adadelta_state& state,
                   const adadelta_options& options);

/// Adadelta as an optimizer of libtorch, which lacks it: torch.optim.Adadelta without `capturable`
/// and `differentiable`.
class adadelta
    : public stepwise_optimizer<adadelta, adadelta_options, adadelta_state, &adadelta_step> {
public:
  using stepwise_optimizer::stepwise_optimizer;
};

template <>
struct optimizer_traits<adadelta> : stepwise_traits<adadelta_options, adadelta_state> {};

}  // namespace troupe
