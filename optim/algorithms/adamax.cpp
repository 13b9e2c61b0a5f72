#include "troupe/optim/algorithms/adamax.hpp"

#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "troupe/optim/algorithms/descent_internal.hpp"
#include "troupe/optim/algorithms/option_checks.hpp"

namespace troupe {

void adamax_options::check() const {
  constexpr auto of = type_name<adamax>();
  detail::expect_at_least_0(of, "lr", lr_);
  detail::expect_at_least_0(of, "eps", eps_);
  detail::expect_below_1(of, "betas[0]", std::get<0>(betas_));
  detail::expect_below_1(of, "betas[1]", std::get<1>(betas_));
  detail::expect_at_least_0(of, "weight_decay", weight_decay_);
}

// The operations of PyTorch's _single_tensor_adamax, in their order.
void adamax_step(const at::Tensor& parameter, const at::Tensor& gradient, adamax_state& state,
                 const adamax_options& options) {
  const at::NoGradGuard off;
  detail::expect_dense(gradient, type_name<adamax>());
  if (!state.exp_avg().defined()) state.exp_avg(at::zeros_like(parameter));
  if (!state.exp_inf().defined()) state.exp_inf(at::zeros_like(parameter));
  const auto t = static_cast<double>(++state.step());
  const auto [beta1, beta2] = options.betas();
  const auto g = detail::descent(parameter, gradient, options.maximize(), options.weight_decay());
  const auto exp_avg = detail::real_view(state.exp_avg());
  auto exp_inf = detail::real_view(state.exp_inf());
  exp_avg.lerp_(g, 1 - beta1);
  at::maximum_out(exp_inf, exp_inf.mul_(beta2), g.abs().add_(options.eps()));
  const auto rate = options.lr() / (1 - std::pow(beta1, t));
  detail::real_view(parameter).addcdiv_(exp_avg, exp_inf, -rate);
}

}  // namespace troupe
