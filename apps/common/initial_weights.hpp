#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

namespace common {

/// A new generator, so that its numbers depend on the seed alone.
at::Generator make_generator(std::uint64_t seed);

/// Draws the weights of all linear and convolutional layers of `network`, in their order, from
/// `generator`: uniform in plus and minus 1 / sqrt(inputs of a unit), as their reset_parameters()
/// does with libtorch's common generator.
void draw_weights(torch::nn::Module& network, const at::Generator& generator);

}  // namespace common
