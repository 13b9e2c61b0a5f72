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

// Gradients are on the aliases while it lives.
class lane::gradients_in_place {
public:
  explicit gradients_in_place(const std::vector<at::Tensor>& aliases) : aliases_(aliases) {}
  gradients_in_place(const std::vector<at::Tensor>& aliases,
                     const std::vector<at::Tensor>& gradients)
      : gradients_in_place(aliases) {
    put(gradients);
  }
  ~gradients_in_place() {
    for (const auto& one : aliases_) one.mutable_grad().reset();
  }
  void put(const std::vector<at::Tensor>& gradients) {
    for (std::size_t i = 0; i < aliases_.size(); ++i) aliases_[i].mutable_grad() = gradients[i];
  }

private:
  const std::vector<at::Tensor>& aliases_;
};

lane::lane(const optimizer_kind& kind, const std::vector<at::Tensor>& parameters,
           const std::vector<std::uint32_t>& group_of,
           const std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>& groups,
           const torch::optim::OptimizerOptions& defaults) {
  std::vector<std::vector<at::Tensor>> members(groups.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    aliases_.push_back(parameters[i].variable_data());
    members.at(group_of[i]).push_back(aliases_.back());
  }
  optimizer_kind::groups all;
  all.reserve(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    all.emplace_back(std::move(members[i]), groups[i]->clone());
  optimizer_ = kind.make(all, defaults);
}

const torch::optim::OptimizerParamState* lane::state(std::size_t i) const {
  const auto& all = optimizer_->state();
  const auto place = all.find(aliases_[i].unsafeGetTensorImpl());
  return place == all.end() ? nullptr : place->second.get();
}

void lane::set_state(std::size_t i, std::unique_ptr<torch::optim::OptimizerParamState> state) {
  auto& all = optimizer_->state();
  if (state)
    all[aliases_[i].unsafeGetTensorImpl()] = std::move(state);
  else
    all.erase(aliases_[i].unsafeGetTensorImpl());
}

void lane::be_like(const lane& from, const std::vector<at::Tensor>& gradients) {
  auto& groups = optimizer_->param_groups();
  const auto& theirs = from.optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].set_options(theirs[i].options().clone());
  for (std::size_t i = 0; i < aliases_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const auto* state = from.state(i);
    set_state(i, state ? state->clone() : nullptr);
  }
}

void lane::follow(const std::vector<at::Tensor>& parameters) {
  for (std::size_t i = 0; i < aliases_.size(); ++i)
    if (!same_memory(aliases_[i], parameters[i])) aliases_[i].set_data(parameters[i]);
}

void lane::step(const std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& gradients) {
  follow(parameters);
  const gradients_in_place there(aliases_, gradients);
  optimizer_->step();
}

at::Tensor lane::step(const std::vector<at::Tensor>& parameters, const evaluation& evaluate) {
  follow(parameters);
  gradients_in_place there(aliases_);
  return optimizer_->step([&] {
    std::vector<at::Tensor> gradients(aliases_.size());
    auto loss = evaluate(gradients);
    there.put(gradients);
    return loss;
  });
}

}  // namespace troupe::detail
