#pragma once

#include <mutex>

#include "troupe/optim/shard/closure_evaluator.hpp"
#include "troupe/optim/shard/parameter_replica_optimizer.hpp"
#include "troupe/optim/shard/storage_lock.hpp"
#include "troupe/optim/shard/shard_messages.hpp"

namespace troupe::detail {

/// The parameters of one node that a distributed optimizer steps, and what it knows of them. All
/// is thread-safe but a step with a closure, which is the actor's alone.
class shard {
public:
  /// Throws invalid_argument for a parameter that is not this node's, no leaf, or there twice; what
  /// the creation of a parameter threw; what the optimizer's constructor throws.
  shard(node_core& here, const optimizer_kind& kind, const shard_plan& plan);

  /// A step with the gradients of the context, on which nothing is changed; returns how many there
  /// are. Parameters that have none stay as they are. Throws unknown_context; invalid_argument,
  /// before anything is stepped, for gradients that do not fit, or are missing where all are
  /// needed; what the optimizer throws.
  std::size_t step(const take_step& how);

  /// The same, with those of the contexts in which the desk's caller evaluates the loss.
  at::Tensor step(const take_closure_step& how);

  /// Has a step no need of the actor's turn?
  bool steps_side_by_side() const noexcept { return how_.mode == step_mode::hogwild; }

  void use(const std::vector<double>& rates);
  shard_state state() const;
  void put(const shard_state& state);

private:
  struct gradients {
    std::vector<at::Tensor> all;  // by the parameters' places, some of them undefined
    std::size_t count = 0;
  };
  gradients gradients_of(std::uint64_t context) const;
  std::vector<at::Tensor> gradients_of_closure(std::uint64_t context) const;
  void check(std::size_t i, const at::Tensor& gradient) const;
  void outdate(const std::vector<at::Tensor>& gradients) const;
  void step_beside(const std::vector<at::Tensor>& gradients);
  std::unique_ptr<lane> take_lane();
  std::unique_ptr<lane> make_lane() const;
  std::string named(std::size_t i) const;

  node_core& here_;
  const optimizer_kind& kind_;
  const optimizer_settings how_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::uint64_t> indexes_;  // in the optimizer's list
  std::vector<std::uint32_t> group_of_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;
  std::unique_ptr<torch::optim::OptimizerOptions> defaults_;

  mutable std::mutex mutex_;  // of what is below

  // Of steps side by side, of which each has a lane of its own; what is known is `main_`'s.
  std::vector<std::unique_ptr<lane>> free_;
  std::vector<char> stepped_;  // parameters that have been, once

  std::unique_ptr<lane> main_;
};

}  // namespace troupe::detail
