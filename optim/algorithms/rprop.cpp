#include "troupe/optim/algorithms/rprop.hpp"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>

#include "troupe/optim/algorithms/descent_internal.hpp"
#include "troupe/optim/algorithms/option_checks.hpp"

namespace troupe {

void rprop_options::check() const {
  constexpr auto of = type_name<rprop>();
  detail::expect_at_least_0(of, "lr", lr_);
  const auto [minus, plus] = etas_;
  if (!(minus > 0 && minus < 1)) detail::refuse_option(of, "etas[0]", minus, "between 0 and 1");
  if (!(plus > 1)) detail::refuse_option(of, "etas[1]", plus, "greater than 1");
}

// The operations of PyTorch's _single_tensor_rprop, in their order.
void rprop_step(const at::Tensor& parameter, const at::Tensor& gradient, rprop_state& state,
                const rprop_options& options) {
  const at::NoGradGuard off;
  detail::expect_dense(gradient, type_name<rprop>());
  const auto lr = options.lr();
  if (!state.prev().defined()) state.prev(at::zeros_like(parameter));
  if (!state.step_size().defined())
    state.step_size(at::full_like(
        parameter, parameter.is_complex() ? at::Scalar(c10::complex<double>(lr, lr)) : lr));
  ++state.step();
  const auto [minus, plus] = options.etas();
  const auto [smallest, greatest] = options.step_sizes();
  const auto g = detail::descent(parameter, gradient, options.maximize(), 0);
  const auto prev = detail::real_view(state.prev());
  const auto step_size = detail::real_view(state.step_size());

  auto factor = g.mul(prev).sign_();
  const auto turned = factor.lt(0);
  factor.masked_fill_(factor.gt(0), plus).masked_fill_(turned, minus);
  factor.masked_fill_(factor.eq(0), 1);
  step_size.mul_(factor).clamp_(smallest, greatest);
  prev.copy_(g).masked_fill_(turned, 0);
  detail::real_view(parameter).addcmul_(prev.sign(), step_size, -1);
}

}  // namespace troupe
