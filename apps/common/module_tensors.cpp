#include "troupe/apps/common/module_tensors.hpp"

#include <fmt/format.h>

#include "troupe/messages/base/error.hpp"

namespace common {

tensors parameters_of(const torch::nn::Module& module) {
  tensors out;
  for (const auto& parameter : module.parameters()) out.push_back(parameter.detach());
  return out;
}

tensors gradients_of(const torch::nn::Module& module) {
  tensors out;
  for (const auto& parameter : module.parameters()) out.push_back(parameter.grad());
  return out;
}

void adopt(torch::nn::Module& module, const tensors& values) {
  auto own = module.parameters();
  require_like(own, values);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].set_data(values[i]);
    own[i].mutable_grad() = at::Tensor();
  }
}

void require_like(const tensors& parameters, const tensors& some) {
  if (some.size() != parameters.size())
    throw troupe::invalid_argument(fmt::format("{} tensors came for a model of {} parameters",
                                               some.size(), parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!some[i].defined() || some[i].sizes() != parameters[i].sizes() ||
        some[i].scalar_type() != parameters[i].scalar_type())
      throw troupe::invalid_argument(
          fmt::format("tensor {} is not of its parameter's shape and type", i));
}

std::int64_t count_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace common
