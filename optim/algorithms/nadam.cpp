#include "troupe/optim/algorithms/nadam.hpp"

#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "troupe/optim/algorithms/descent_internal.hpp"
#include "troupe/optim/algorithms/option_checks.hpp"

namespace troupe {

void nadam_options::check() const {
  constexpr auto of = type_name<nadam>();
  detail::expect_at_least_0(of, "lr", lr_);
  detail::expect_at_least_0(of, "eps", eps_);
  detail::expect_below_1(of, "betas[0]", std::get<0>(betas_));
  detail::expect_below_1(of, "betas[1]", std::get<1>(betas_));
  detail::expect_at_least_0(of, "weight_decay", weight_decay_);
  detail::expect_at_least_0(of, "momentum_decay", momentum_decay_);
}

// The operations of PyTorch's _single_tensor_nadam, in their order.
void nadam_step(const at::Tensor& parameter, const at::Tensor& gradient, nadam_state& state,
                const nadam_options& options) {
  const at::NoGradGuard off;
  detail::expect_dense(gradient, type_name<nadam>());
  if (!state.exp_avg().defined()) state.exp_avg(at::zeros_like(parameter));
  if (!state.exp_avg_sq().defined()) state.exp_avg_sq(at::zeros_like(parameter));
  const auto t = static_cast<double>(++state.step());
  const auto [beta1, beta2] = options.betas();
  const auto lr = options.lr();
  const auto momentum = [&, beta = beta1](double when) {
    return beta * (1 - 0.5 * std::pow(0.96, when * options.momentum_decay()));
  };
  const auto mu = momentum(t), mu_next = momentum(t + 1);
  const auto product = (state.mu_product() *= mu);

  const auto p = detail::real_view(parameter);
  const bool decoupled = options.decoupled_weight_decay();
  if (decoupled && options.weight_decay() != 0) p.mul_(1 - lr * options.weight_decay());
  const auto g = detail::descent(parameter, gradient, options.maximize(),
                                 decoupled ? 0 : options.weight_decay());
  const auto exp_avg = detail::real_view(state.exp_avg());
  const auto exp_avg_sq = detail::real_view(state.exp_avg_sq());
  exp_avg.lerp_(g, 1 - beta1);
  exp_avg_sq.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const auto root = exp_avg_sq.div(1 - std::pow(beta2, t)).sqrt_().add_(options.eps());
  p.addcdiv_(g, root, -lr * (1 - mu) / (1 - product));
  p.addcdiv_(exp_avg, root, -lr * mu_next / (1 - product * mu_next));
}

}  // namespace troupe
