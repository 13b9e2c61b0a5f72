#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/optim/state/archive_values.hpp"

// What optimizers know, as values that can be sent and saved.
namespace troupe::detail {

/// What an optimizer knows of one parameter.
struct parameter_state {
  std::uint64_t index = 0;          ///< in the optimizer's list of parameters
  std::vector<std::int64_t> shape;  ///< of the parameter
  std::string dtype;
  std::optional<archive_values> state;  ///< none before the first step
};
TROUPE_MESSAGE_EXTERN(parameter_state, index, shape, dtype, state)

/// All that one shard knows.
struct shard_state {
  std::vector<archive_values> groups;  ///< the options of each group
  std::vector<parameter_state> parameters;
};
TROUPE_MESSAGE_EXTERN(shard_state, groups, parameters)

/// All that a distributed optimizer knows, on whichever nodes its parameters are: states by the
/// parameter's index in its list.
struct optimizer_state {
  std::string optimizer;                ///< the name of its class
  std::vector<std::uint32_t> group_of;  ///< of each parameter
  shard_state all;
};
TROUPE_MESSAGE_EXTERN(optimizer_state, optimizer, group_of, all)

}  // namespace troupe::detail
