#include "troupe/optim/shard/parameter_replica_optimizer.hpp"

namespace troupe::detail {

namespace {

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  if (!a.has_storage() || !b.has_storage()) return a.has_storage() == b.has_storage();
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

// The replicas have gradients while it lives.
class parameter_replica_optimizer::scoped_gradients {
public:
  explicit scoped_gradients(const std::vector<at::Tensor>& replicas) : replicas_(replicas) {}
  scoped_gradients(const std::vector<at::Tensor>& replicas,
                   const std::vector<at::Tensor>& gradients)
      : scoped_gradients(replicas) {
    put(gradients);
  }
  ~scoped_gradients() {
    for (const auto& one : replicas_) one.mutable_grad().reset();
  }
  void put(const std::vector<at::Tensor>& gradients) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) replicas_[i].mutable_grad() = gradients[i];
  }

private:
  const std::vector<at::Tensor>& replicas_;
};

parameter_replica_optimizer::parameter_replica_optimizer(
    const optimizer_kind& kind, const std::vector<at::Tensor>& parameters,
    const std::vector<std::uint32_t>& group_of,
    const std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>& groups,
    const torch::optim::OptimizerOptions& defaults) {
  std::vector<std::vector<at::Tensor>> members(groups.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    replicas_.push_back(parameters[i].variable_data());
    members.at(group_of[i]).push_back(replicas_.back());
  }
  optimizer_kind::groups all;
  all.reserve(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    all.emplace_back(std::move(members[i]), groups[i]->clone());
  optimizer_ = kind.make(all, defaults);
}

const torch::optim::OptimizerParamState* parameter_replica_optimizer::state(std::size_t i) const {
  const auto& all = optimizer_->state();
  const auto place = all.find(replicas_[i].unsafeGetTensorImpl());
  return place == all.end() ? nullptr : place->second.get();
}

void parameter_replica_optimizer::set_state(
    std::size_t i, std::unique_ptr<torch::optim::OptimizerParamState> state) {
  auto& all = optimizer_->state();
  if (state)
    all[replicas_[i].unsafeGetTensorImpl()] = std::move(state);
  else
    all.erase(replicas_[i].unsafeGetTensorImpl());
}

void parameter_replica_optimizer::copy_settings_and_states(
    const parameter_replica_optimizer& from, const std::vector<at::Tensor>& gradients) {
  auto& groups = optimizer_->param_groups();
  const auto& theirs = from.optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].set_options(theirs[i].options().clone());
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const auto* state = from.state(i);
    set_state(i, state ? state->clone() : nullptr);
  }
}

void parameter_replica_optimizer::follow(const std::vector<at::Tensor>& parameters) {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (!same_memory(replicas_[i], parameters[i])) replicas_[i].set_data(parameters[i]);
}

void parameter_replica_optimizer::step(const std::vector<at::Tensor>& parameters,
                                       const std::vector<at::Tensor>& gradients) {
  follow(parameters);
  const scoped_gradients there(replicas_, gradients);
  optimizer_->step();
}

at::Tensor parameter_replica_optimizer::step(const std::vector<at::Tensor>& parameters,
                                             const evaluation& evaluate) {
  follow(parameters);
  scoped_gradients there(replicas_);
  return optimizer_->step([&] {
    std::vector<at::Tensor> gradients(replicas_.size());
    auto loss = evaluate(gradients);
    there.put(gradients);
    return loss;
  });
}

}  // namespace troupe::detail
