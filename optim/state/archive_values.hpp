#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "troupe/messages/codec/sendable.hpp"
#include "troupe/optim/algorithms/kind.hpp"

// Options and states of libtorch's optimizers as values that can be sent. libtorch writes and reads
// them as archives only, and an archive may contain a program that runs when it is read: so an
// archive that came from elsewhere is never read here.
namespace troupe::detail {

/// Such as Adam's betas.
struct number_tuple {
  std::vector<double> numbers;
};
TROUPE_MESSAGE_EXTERN(number_tuple, numbers)

using archive_value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor, number_tuple,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<at::Tensor>>;

/// By the names that libtorch gives them.
using archive_values = std::map<std::string, archive_value>;

/// Throws invalid_argument for an option whose type `archive_value` does not have.
archive_values values_of(const torch::optim::OptimizerOptions& options);

/// The same for a state. Its tensors are copied into host memory.
archive_values values_of(const torch::optim::OptimizerParamState& state);

/// Throws invalid_argument for values that are not options of that class.
std::unique_ptr<torch::optim::OptimizerOptions> options_from(const optimizer_kind& kind,
                                                             const archive_values& values);

/// The tensors are copied to `device`. Throws invalid_argument for values that are not a state of
/// that class.
std::unique_ptr<torch::optim::OptimizerParamState> state_from(const optimizer_kind& kind,
                                                              const archive_values& values,
                                                              const at::Device& device);

}  // namespace troupe::detail
