#pragma once

#include <mutex>
#include <optional>

#include "troupe/optim/shard/parameter_replica_optimizer.hpp"
#include "troupe/optim/shard/shard_messages.hpp"

namespace troupe::detail {

/// The parameters of one node that a distributed optimizer steps, and what the optimizer knows of
/// them. Thread-safe, except for a step with a closure: only the shard's actor takes those.
class shard {
public:
  /// Throws invalid_argument for a parameter that this node does not own, that is no leaf, or that
  /// is listed twice; what the creation of a parameter threw; what the optimizer's constructor
  /// throws.
  shard(node_core& here, const optimizer_kind& kind, const shard_plan& plan);

  /// Steps with the gradients of the context, which it does not change, and returns how many there
  /// are: none if the context has not reached this node. Parameters without one stay as they are.
  /// Throws unknown_context if the context has ended; invalid_argument, before
  /// anything is stepped, for gradients that do not fit or, if all are needed, are missing; what
  /// the optimizer throws.
  std::size_t step(const take_step& how);

  /// The same with the gradients of the contexts in which the caller evaluates the loss. Returns
  /// the first loss.
  at::Tensor step(const take_closure_step& how);

  /// May steps run at the same time, outside of the actor?
  bool steps_concurrently() const noexcept { return how_.mode == step_mode::hogwild; }

  /// Ignores rates that later ones of the same sender have overtaken. Throws invalid_argument,
  /// before any is set, for a group that does not exist.
  void set_learning_rates(const learning_rates& what);

  /// Options and states, between two steps.
  shard_state state() const;
  /// Replaces them. Throws invalid_argument, before anything is changed, for a state that does not
  /// fit.
  void put(const shard_state& state);

private:
  struct gradients {
    std::vector<at::Tensor> all;  // by the parameters' indexes here, some of them undefined
    std::size_t count = 0;
  };
  gradients gradients_of(std::uint64_t context) const;
  std::optional<gradients> gradients_if_reached(std::uint64_t context) const;
  std::vector<at::Tensor> gradients_of_closure(std::uint64_t context) const;
  void check(std::size_t i, const at::Tensor& gradient) const;
  void count_versions_up(const std::vector<at::Tensor>& gradients) const;
  void step_concurrently(const std::vector<at::Tensor>& gradients);
  bool makes_state(const std::vector<at::Tensor>& gradients) const;
  std::unique_ptr<parameter_replica_optimizer> take_replica();
  std::unique_ptr<parameter_replica_optimizer> make_replica() const;
  std::string named(std::size_t i) const;

  node_core& here_;
  const optimizer_kind& kind_;
  const optimizer_settings how_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::uint64_t> indexes_;  // in the optimizer's list
  std::vector<std::uint32_t> group_of_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;
  std::unique_ptr<torch::optim::OptimizerOptions> defaults_;

  // Guards the members below. Locked after a storage_lock, never before one: a concurrent step
  // needs it twice while it holds the storages.
  mutable std::mutex mutex_;

  // Has the options and states. Its tensors of states belong to whoever holds the storages of their
  // parameters.
  std::unique_ptr<parameter_replica_optimizer> main_;

  // A concurrent step uses a replica optimizer of its own, which shares the tensors of `main_`'s
  // states.
  std::vector<std::unique_ptr<parameter_replica_optimizer>> idle_replicas_;
  struct sender {
    std::uint64_t from = 0;
    std::uint64_t number = 0;
  };
  std::vector<sender> set_by_;  // by group: who has set its learning rate last
  std::vector<char> stepped_;   // by the parameters' indexes here: has it been stepped?
};

}  // namespace troupe::detail
