#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "troupe/autograd/context.hpp"
#include "troupe/optim/client/learning_rate_sync.hpp"
#include "troupe/optim/shard/shard_messages.hpp"

namespace troupe::detail {

/// All of a distributed optimizer that does not depend on libtorch's class: see
/// distributed_optimizer. Thread-safe, except for the optimizer that schedulers get.
class optimizer_client {
public:
  /// Without parameters: to be read into.
  explicit optimizer_client(const optimizer_kind& kind) : kind_(&kind) {}

  /// Throws like distributed_optimizer. `make` makes the shard of each owner.
  using shard_maker =
      std::function<future<shard_actor>(const node&, const destination&, const shard_plan&)>;
  optimizer_client(const optimizer_kind& kind,
                   const std::vector<std::vector<rref<at::Tensor>>>& groups,
                   const std::vector<archive_values>& options, const archive_values& defaults,
                   const optimizer_settings& how, const shard_maker& make);

  void step(std::uint64_t context) const;
  void step(const autograd::context& context) const { step(context.id()); }
  future<void> step_async(std::uint64_t context) const;
  future<void> step_async(const autograd::context& context) const {
    return step_async(context.id());
  }

  /// Sets the learning rate of all groups, or of one, on all shards, and returns when they have it.
  /// Throws like `step`, and invalid_argument for a group that does not exist. Shards that could
  /// not be reached get the rate with the next step, `set_lr` or `save`.
  void set_lr(double rate) const;
  void set_lr(std::size_t group, double rate) const;
  /// The rate that this node has set last.
  double lr(std::size_t group = 0) const;

  /// For libtorch's schedulers: `torch::optim::StepLR schedule(optimizer, 10, 0.5)`. The learning
  /// rates that they set go to all shards with the next step of this optimizer or of its copies on
  /// this node. The reference is valid as long as one of these exists. One thread at a time, and no
  /// step meanwhile.
  operator torch::optim::Optimizer&() const { return proxy(); }

  /// Saves and loads all that the shards know, but not the parameters: options and states, by the
  /// parameter's index in the list. An optimizer of the same class with the same groups that loads
  /// them, whichever nodes its parameters are on, steps as the saved one would have. Each shard
  /// saves between two steps; for a state of one moment on all shards, let no other trainer step
  /// meanwhile. The file is replaced atomically, once all of the new one is written. Both throw
  /// like `step`, and invalid_argument for a file that cannot be written; that `save` has not
  /// written; that is truncated or damaged; or that is the state of another optimizer, other groups
  /// or other parameters. The error names what does not fit, and where, and nothing is changed on
  /// that shard (others may have loaded the state).
  void save(const std::string& file) const;
  void load(const std::string& file) const;

  /// The nodes that have a shard, in the order of their first parameters in the list.
  std::vector<std::string> owners() const;

protected:
  using closure = std::function<at::Tensor(const autograd::context&)>;
  at::Tensor step_with(const closure& evaluate) const;

  const optimizer_kind* kind_;
  std::vector<shard_handle> shards_;
  std::vector<archive_values> groups_;  // options
  std::vector<std::uint32_t> group_of_;

private:
  struct requested_step;

  std::shared_ptr<node_core> here() const;
  requested_step request_step(std::uint64_t context, const std::shared_ptr<shard>& local) const;
  at::Tensor step_evaluating(const closure& evaluate) const;
  std::shared_ptr<shard> local_shard() const;
  torch::optim::Optimizer& proxy() const { return rates_->proxy(*kind_, groups_); }
  learning_rate_sync::delivery next_rates(node_core& here) const;
  void send(learning_rate_sync::delivery rates) const;
  void set_rate(std::optional<std::size_t> group, double rate) const;

  // The shard of this node, if there is one: known after the first request for it.
  struct shard_of_this_node {
    std::mutex mutex;
    std::atomic<bool> requested{false};
    std::weak_ptr<shard> found;  // written under `mutex` before `requested` is true
  };

  std::shared_ptr<learning_rate_sync> rates_ = std::make_shared<learning_rate_sync>();
  std::shared_ptr<shard_of_this_node> local_ = std::make_shared<shard_of_this_node>();
};

}  // namespace troupe::detail
