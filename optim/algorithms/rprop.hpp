#pragma once

#include "troupe/optim/algorithms/stepwise.hpp"

namespace troupe {

/// Options of `rprop`; defaults and limits are those of torch.optim.Rprop of PyTorch 2.11.
struct rprop_options : stepwise_options<rprop_options> {
  rprop_options(double lr = 1e-2) : lr_(lr) {}

  /// The first step size of each element, at least 0. It does not affect parameters that have been
  /// stepped, and so neither do schedulers.
  TORCH_ARG(double, lr);
  /// Factors of a step size if the gradient has changed its sign, and if it has not: between 0 and
  /// 1, and above 1.
  TORCH_ARG(number_pair, etas) = {0.5, 1.2};
  /// The smallest and the largest step size.
  TORCH_ARG(number_pair, step_sizes) = {1e-6, 50.0};
  /// Maximizes the loss.
  TORCH_ARG(bool, maximize) = false;
  TROUPE_EACH_FIELD(lr, etas, step_sizes, maximize)

  /// Throws invalid_argument, which names the option and its value.
  void check() const;
};

/// What `rprop` knows of a parameter. The tensors have its shape, dtype and device.
struct rprop_state : stepwise_state<rprop_state> {
  TORCH_ARG(std::int64_t, step) = 0;
  /// The gradient of the step before, 0 where it had changed its sign.
  TORCH_ARG(at::Tensor, prev);
  /// Of each element: eta in the algorithm box of PyTorch. The real and the imaginary part of a
  /// complex number have one each.
  TORCH_ARG(at::Tensor, step_size);
  TROUPE_EACH_FIELD(step, prev, step_size)
};

/// One step of Rprop, in place and without autograd, for gradients of the whole data. `parameter`,
/// of any real or complex dtype, and `gradient` have the same shape, dtype and device. Source: the
/// algorithm box of torch.optim.Rprop (PyTorch 2.11) after Riedmiller and Braun, "A Direct Adaptive
/// Method for Faster Backpropagation Learning: The RPROP Algorithm" (ICNN 1993), without its
/// backtracking of the weights. For each element, with g its gradient, q the one before and s its
/// step size:
///
///     if q g > 0:  s = min(s eta+, largest)
///     if q g < 0:  s = max(s eta-, smallest), g = 0
///     p = p - s sign(g)
///
/// Throws invalid_argument for a sparse gradient.
void rprop_step(const at::Tensor& parameter, const at::Tensor& gradient, rprop_state& state,
                const rprop_options& options);

/// Rprop as an optimizer of libtorch, which lacks it: torch.optim.Rprop without `capturable` and
/// `differentiable`.
class rprop : public stepwise_optimizer<rprop, rprop_options, rprop_state, &rprop_step> {
public:
  using stepwise_optimizer::stepwise_optimizer;
};

template <>
struct optimizer_traits<rprop> : stepwise_traits<rprop_options, rprop_state> {};

}  // namespace troupe
