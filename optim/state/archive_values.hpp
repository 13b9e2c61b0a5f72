#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "troupe/messages/codec/sendable.hpp"
#include "troupe/optim/algorithms/kind.hpp"

// Options and states of libtorch's optimizers as values that can be sent. libtorch hands them out
// in archives only, and reads from those also whatever program they bring along: an archive is
// never read here that came from elsewhere.
namespace troupe::detail {

/// As Adam's betas.
struct number_tuple {
  std::vector<double> numbers;
};
TROUPE_MESSAGE_EXTERN(number_tuple, numbers)

using archive_value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor, number_tuple,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<at::Tensor>>;

/// By the names that libtorch gives them.
using archive_values = std::map<std::string, archive_value>;

/// Throws invalid_argument for an option of a type that is not among `archive_value`'s.
archive_values values_of(const torch::optim::OptimizerOptions& options);

/// The same of a state. Its tensors are copies, in host memory.
archive_values values_of(const torch::optim::OptimizerParamState& state);

/// Throws invalid_argument for values that are not such options.
std::unique_ptr<torch::optim::OptimizerOptions> options_from(const optimizer_kind& kind,
                                                             const archive_values& values);

/// Its tensors are copies, on `device`. Throws invalid_argument for values that are no such state.
std::unique_ptr<torch::optim::OptimizerParamState> state_from(const optimizer_kind& kind,
                                                              const archive_values& values,
                                                              const at::Device& device);

}  // namespace troupe::detail
