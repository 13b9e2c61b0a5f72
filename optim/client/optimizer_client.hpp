#pragma once

#include <mutex>

#include "troupe/autograd/context.hpp"
#include "troupe/optim/shard/shard_actor.hpp"
#include "troupe/optim/client/scheduler_proxy.hpp"

namespace troupe::detail {

/// The shard on one node, as whoever steps it knows it.
struct shard_handle {
  shard_actor actor;
  std::string node;
  std::vector<std::uint64_t> parameters;  ///< indexes, in the shard's order
};
TROUPE_MESSAGE_EXTERN(shard_handle, actor, node, parameters)

/// All of a distributed optimizer that does not depend on libtorch's class: see
/// distributed_optimizer. Thread-safe, but for the stand-in.
class optimizer_front {
public:
  /// Of nothing: to be read into.
  explicit optimizer_front(const optimizer_kind& kind) : kind_(&kind) {}

  /// Throws like distributed_optimizer. `make` is called on each owner.
  using maker =
      std::function<future<shard_actor>(const node&, const destination&, const shard_plan&)>;
  optimizer_front(const optimizer_kind& kind,
                  const std::vector<std::vector<rref<at::Tensor>>>& groups,
                  const std::vector<archive_values>& options, const archive_values& defaults,
                  const optimizer_settings& how, const maker& make);

  void step(std::uint64_t context) const;
  void step(const autograd::context& context) const { step(context.id()); }
  future<void> step_async(std::uint64_t context) const;
  future<void> step_async(const autograd::context& context) const {
    return step_async(context.id());
  }

  /// Sets the learning rate of all groups, or of one, on all shards, and returns when they have it.
  /// Throws like `step`, and invalid_argument for a group that there is not.
  void set_lr(double rate) const;
  void set_lr(std::size_t group, double rate) const;
  /// As this node has set it last.
  double lr(std::size_t group = 0) const;

  /// For schedulers of libtorch: `torch::optim::StepLR schedule(optimizer, 10, 0.5)`. The learning
  /// rates that they set go to all shards with the next step of this optimizer or its copies on
  /// this node. It lives as long as these do. One thread at a time, and no step meanwhile.
  operator torch::optim::Optimizer&() const { return local(); }

  /// Everything that the shards know, not the parameters: options and states, by the parameter's
  /// index in the list. Loaded onto an optimizer of the same class with the same groups, whichever
  /// nodes its parameters are on, it steps on as the saved one would have. Each shard saves between
  /// two steps; let no other trainer step meanwhile if all are to be of one moment. The file is
  /// replaced at once when all of it is there.
  /// Throws like `step`; invalid_argument for a file that is none of `save`'s, is cut or spoilt, or
  /// is of another optimizer, other groups or parameters, naming what and where, and before
  /// anything is changed on the shard where it does not fit (others may have loaded it).
  void save(const std::string& file) const;
  void load(const std::string& file) const;

  /// The nodes that have a shard, in the order in which their first parameters stand in the list.
  std::vector<std::string> owners() const;

protected:
  using closure = std::function<at::Tensor(const autograd::context&)>;
  at::Tensor step_with(const closure& evaluate) const;

  const optimizer_kind* kind_;
  std::vector<shard_handle> shards_;
  std::vector<archive_values> groups_;  // options
  std::vector<std::uint32_t> group_of_;
  bool needs_all_gradients_ = false;

private:
  struct asked_step;

  std::shared_ptr<node_core> here() const;
  asked_step ask_step(std::uint64_t context, const std::shared_ptr<shard>& mine) const;
  std::shared_ptr<shard> shard_here() const;
  torch::optim::Optimizer& local() const { return rates_->local(*kind_, groups_); }
  void tell_rates() const;

  // That of this node, without its actor.
  struct own_shard {
    std::once_flag asked;
    std::weak_ptr<shard> found;
  };

  std::shared_ptr<rate_desk> rates_ = std::make_shared<rate_desk>();
  std::shared_ptr<own_shard> mine_ = std::make_shared<own_shard>();
};

}  // namespace troupe::detail
