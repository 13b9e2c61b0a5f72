#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "operators_internal.hpp"

// libtorch sends convolutions of such a device to operators that have no fallback.
namespace troupe::test::accelerator {

namespace {

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                    c10::IntArrayRef output_padding, std::int64_t groups) {
  ++count().fallbacks;
  const auto host_bias = bias && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  return at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation,
                         transposed, output_padding, groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> mask) {
  ++count().fallbacks;
  const std::vector<std::int64_t> bias_sizes{gradient.size(1)};
  auto [a, b, c] =
      at::convolution_backward(gradient.cpu(), input.cpu(), weight.cpu(), bias_sizes, stride,
                               padding, dilation, transposed, output_padding, groups, mask);
  const auto back = [&](const at::Tensor& t) { return t.defined() ? t.to(input.device()) : t; };
  return {back(a), back(b), back(c)};
}

}  // namespace

void register_convolution(torch::Library& to) {
  to.impl("convolution_overrideable", &convolve);
  to.impl("convolution_backward_overrideable", &convolve_backward);
}

}  // namespace troupe::test::accelerator
