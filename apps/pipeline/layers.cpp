#include "troupe/apps/pipeline/layers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>

#include "troupe/messages/base/error.hpp"

namespace pipeline {

namespace {

constexpr std::int64_t side = 8, classes = 10;
constexpr std::int64_t norm_group = 4;  // channels

// Uniform in plus and minus 1 / sqrt(inputs of a unit), like libtorch's layers.
at::Tensor draw_uniform(at::IntArrayRef sizes, const at::Generator& generator) {
  auto weights = at::empty(sizes);
  const double bound = 1 / std::sqrt(double(weights[0].numel()));
  return weights.uniform_(-bound, bound, generator);
}

/// Filters of 3 by 3 pixels without a bias: the norm that follows them has one.
struct filters {
  std::int64_t in, out;

  at::Tensor draw(const at::Generator& generator) const {
    return draw_uniform({out, in, 3, 3}, generator);
  }
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weights) const {
    return at::conv2d(x, weights, {}, 1, 1);
  }
  double operations() const { return 2.0 * double(in * 3 * 3 * out * side * side); }
};

at::Tensor norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  return at::group_norm(x, x.size(1) / norm_group, scale, shift);
}

class first_layer final : public layer {
public:
  explicit first_layer(std::int64_t width) : filters_{1, width} {}

  std::vector<at::Tensor> draw(const at::Generator& generator) const override {
    return {filters_.draw(generator), at::ones({filters_.out}), at::zeros({filters_.out})};
  }
  at::Tensor forward(const at::Tensor& x, std::span<const at::Tensor> w) const override {
    return at::relu(norm(filters_(x, w[0]), w[1], w[2]));
  }
  double operations() const override { return filters_.operations(); }

private:
  const filters filters_;
};

class residual_block final : public layer {
public:
  explicit residual_block(std::int64_t width) : filters_{width, width} {}

  // The second norm begins at zero, and with it the block as what does nothing (Goyal et al.,
  // "Accurate, large minibatch SGD", 2017, section 5.1).
  std::vector<at::Tensor> draw(const at::Generator& generator) const override {
    const auto width = filters_.out;
    return {filters_.draw(generator), at::ones({width}),  at::zeros({width}),
            filters_.draw(generator), at::zeros({width}), at::zeros({width})};
  }

  at::Tensor forward(const at::Tensor& x, std::span<const at::Tensor> w) const override {
    const auto inner = at::relu(norm(filters_(x, w[0]), w[1], w[2]));
    return at::relu(x + norm(filters_(inner, w[3]), w[4], w[5]));
  }

  double operations() const override { return 2 * filters_.operations(); }

private:
  const filters filters_;
};

/// Scores of the digits from all channels of all pixels.
class last_layer final : public layer {
public:
  explicit last_layer(std::int64_t inputs) : inputs_(inputs) {}

  std::vector<at::Tensor> draw(const at::Generator& generator) const override {
    return {draw_uniform({classes, inputs_}, generator), at::zeros({classes})};
  }
  at::Tensor forward(const at::Tensor& x, std::span<const at::Tensor> w) const override {
    return at::linear(x.flatten(1), w[0], w[1]);
  }
  double operations() const override { return 2.0 * double(inputs_ * classes); }

private:
  const std::int64_t inputs_;
};

}  // namespace

std::vector<std::unique_ptr<const layer>> make_layers(const network_shape& shape) {
  if (shape.width < norm_group || shape.width % norm_group != 0)
    throw troupe::invalid_argument(
        fmt::format("a width is a multiple of {}, and not {}", norm_group, shape.width));
  if (shape.blocks < 1) throw troupe::invalid_argument("a network has at least one block");
  std::vector<std::unique_ptr<const layer>> out;
  out.push_back(std::make_unique<first_layer>(shape.width));
  for (std::int64_t i = 0; i < shape.blocks; ++i)
    out.push_back(std::make_unique<residual_block>(shape.width));
  out.push_back(std::make_unique<last_layer>(shape.width * side * side));
  return out;
}

}  // namespace pipeline
