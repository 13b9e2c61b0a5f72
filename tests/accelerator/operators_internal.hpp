#pragma once

#include <torch/library.h>

namespace troupe::test::accelerator {

// Kernels of the device and the fallback for all other operators. Once.
void register_operators();

void register_copies(torch::Library& to);
void register_shapes(torch::Library& to);
void register_convolution(torch::Library& to);

}  // namespace troupe::test::accelerator
