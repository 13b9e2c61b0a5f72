#pragma once

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "troupe/messages/base/type_name.hpp"
#include "troupe/optim/algorithms/optimizer_traits.hpp"

namespace troupe {

#define TROUPE_OPTIMIZER(Name, Closure)              \
  template <>                                        \
  struct optimizer_traits<torch::optim::Name> {      \
    using options = torch::optim::Name##Options;     \
    using state = torch::optim::Name##ParamState;    \
    static constexpr bool needs_closure = Closure;   \
    static options some_options() { return {1e-3}; } \
  };
TROUPE_OPTIMIZER(SGD, false)
TROUPE_OPTIMIZER(Adam, false)
TROUPE_OPTIMIZER(AdamW, false)
TROUPE_OPTIMIZER(Adagrad, false)
TROUPE_OPTIMIZER(RMSprop, false)
TROUPE_OPTIMIZER(LBFGS, true)
#undef TROUPE_OPTIMIZER

namespace detail {

/// An optimizer class without its type: makes optimizers of the class, and restores them.
struct optimizer_kind {
  using groups = std::vector<torch::optim::OptimizerParamGroup>;

  std::string_view name;
  bool needs_closure;
  std::unique_ptr<torch::optim::Optimizer> (*make)(const groups&,
                                                   const torch::optim::OptimizerOptions&);
  /// Any options, and a state before the first step, to be read into.
  std::unique_ptr<torch::optim::OptimizerOptions> (*some_options)();
  std::unique_ptr<torch::optim::OptimizerParamState> (*empty_state)();
};

template <class Optimizer>
inline constexpr optimizer_kind kind_of{
    type_name<Optimizer>(),
    optimizer_traits<Optimizer>::needs_closure,
    [](const optimizer_kind::groups& groups,
       const torch::optim::OptimizerOptions& defaults) -> std::unique_ptr<torch::optim::Optimizer> {
      using options = typename optimizer_traits<Optimizer>::options;
      return std::make_unique<Optimizer>(groups, static_cast<const options&>(defaults));
    },
    []() -> std::unique_ptr<torch::optim::OptimizerOptions> {
      using options = typename optimizer_traits<Optimizer>::options;
      return std::make_unique<options>(optimizer_traits<Optimizer>::some_options());
    },
    []() -> std::unique_ptr<torch::optim::OptimizerParamState> {
      return std::make_unique<typename optimizer_traits<Optimizer>::state>();
    },
};

}  // namespace detail

}  // namespace troupe
