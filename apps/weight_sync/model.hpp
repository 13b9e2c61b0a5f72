#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weight_sync {

/// Weights by name.
using named_weights = std::vector<std::pair<std::string, at::Tensor>>;

/// The size of the network: residual layers of `width` x `width` weights.
struct network_shape {
  std::int64_t width = 2048;
  std::int64_t layers = 6;

  std::int64_t parameters() const { return layers * width * width; }
};

/// Initial weights, the same for the same seed.
named_weights make_weights(const network_shape& shape, std::uint64_t seed);

/// x [batch, width] to [batch, width], float32: each layer adds tanh(x W) / layers.
at::Tensor forward(const named_weights& weights, at::Tensor x);

/// A number that tells one version of the weights from another, exact on every machine: the sum of
/// the bits of every 1,009th weight.
std::int64_t digest(const named_weights& weights);

}  // namespace weight_sync
