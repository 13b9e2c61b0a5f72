#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "troupe/messages/codec/type_registration.hpp"

namespace pipeline {

/// How large a network is, and where its random numbers begin.
struct network_shape {
  std::int64_t width = 0;   ///< channels, in fours
  std::int64_t blocks = 0;  ///< residual ones
  std::uint64_t seed = 0;
};
TROUPE_MESSAGE(network_shape, width, blocks, seed)

/// A piece of a network that stays in one piece. Its weights are given to it, since there may be
/// several versions of them at a time. What it makes of an image does not depend on which other
/// images are in the batch.
class layer {
public:
  layer() = default;
  layer(const layer&) = delete;
  layer& operator=(const layer&) = delete;
  virtual ~layer() = default;

  /// The weights to begin with; what is random about them is drawn from `generator`.
  virtual std::vector<at::Tensor> draw(const at::Generator& generator) const = 0;

  /// [n, channels, side, side], or what the last layer makes of that. As many weights as `draw`
  /// gives, in that order.
  virtual at::Tensor forward(const at::Tensor& x, std::span<const at::Tensor> weights) const = 0;

  /// Floating point operations of its convolutions and matrices for one image, forward.
  virtual double operations() const = 0;
};

/// A residual network for pictures of 8 by 8 pixels: a convolution, `blocks` residual blocks (He et
/// al., "Deep residual learning for image recognition", 2015), all alike, and a linear layer that
/// gives scores [n, 10]. Where theirs has batch norm, this has group norm (Wu and He, 2018), which
/// looks at one image at a time. Throws troupe::invalid_argument for a width that is not in fours,
/// and for no block.
std::vector<std::unique_ptr<const layer>> make_layers(const network_shape& shape);

}  // namespace pipeline
