#include "troupe/optim/algorithms/adadelta.hpp"

#include <ATen/ops/zeros_like.h>

#include "troupe/optim/algorithms/descent_internal.hpp"
#include "troupe/optim/algorithms/option_checks.hpp"

namespace troupe {

void adadelta_options::check() const {
  constexpr auto of = type_name<adadelta>();
  detail::expect_at_least_0(of, "lr", lr_);
  if (!(rho_ >= 0 && rho_ <= 1)) detail::refuse_option(of, "rho", rho_, "from 0 to 1");
  detail::expect_at_least_0(of, "eps", eps_);
  detail::expect_at_least_0(of, "weight_decay", weight_decay_);
}

// The operations of PyTorch's _single_tensor_adadelta, in their order.
void adadelta_step(const at::Tensor& parameter, const at::Tensor& gradient, adadelta_state& state,
                   const adadelta_options& options) {
  const at::NoGradGuard off;
  detail::expect_dense(gradient, type_name<adadelta>());
  if (!state.square_avg().defined()) state.square_avg(at::zeros_like(parameter));
  if (!state.acc_delta().defined()) state.acc_delta(at::zeros_like(parameter));
  ++state.step();
  const auto g = detail::descent(parameter, gradient, options.maximize(), options.weight_decay());
  const auto square_avg = detail::real_view(state.square_avg());
  const auto acc_delta = detail::real_view(state.acc_delta());
  square_avg.mul_(options.rho()).addcmul_(g, g, 1 - options.rho());
  const auto root = square_avg.add(options.eps()).sqrt_();
  const auto delta = acc_delta.add(options.eps()).sqrt_().div_(root).mul_(g);
  acc_delta.mul_(options.rho()).addcmul_(delta, delta, 1 - options.rho());
  detail::real_view(parameter).add_(delta, -options.lr());
}

}  // namespace troupe
