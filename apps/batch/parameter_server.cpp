#include "troupe/apps/batch/parameter_server.hpp"

#include "troupe/apps/common/initial_weights.hpp"

namespace batch {

namespace {

constexpr double learning_rate = 3e-4;

tensors copies_of(const tensors& some) {
  tensors copies;
  for (const auto& each : some) copies.push_back(each.clone());
  return copies;
}

}  // namespace

parameter_server::parameter_server(const network_shape& shape, std::uint64_t seed,
                                   std::size_t trainers)
    : model_(shape),
      optimizer_(model_.parameters(), torch::optim::AdamOptions(learning_rate)),
      collector_(trainers, [this] {
        const std::lock_guard lock(mutex_);
        step();
        return common::parameters_of(model_);
      }) {
  common::draw_weights(model_, common::make_generator(seed));
  for (auto& parameter : model_.parameters())
    parameter.mutable_grad() = at::empty_like(parameter.detach());
}

tensors parameter_server::fetch() {
  const std::lock_guard lock(mutex_);
  return copies_of(common::parameters_of(model_));
}

troupe::task<tensors> parameter_server::update_and_fetch(std::uint32_t trainer,
                                                         const tensors& gradients) {
  const auto updated = collector_.submit(trainer, [&] {
    const std::lock_guard lock(mutex_);
    add(gradients);
  });
  co_return co_await updated;
}

tensors parameter_server::update_alone_and_fetch(const tensors& gradients) {
  const std::lock_guard lock(mutex_);
  add(gradients);
  step();
  return copies_of(common::parameters_of(model_));
}

void parameter_server::add(const tensors& gradients) {
  const auto own = model_.parameters();
  common::require_like(own, gradients);
  for (std::size_t i = 0; i < own.size(); ++i) {
    auto& sum = own[i].mutable_grad();
    added_ == 0 ? sum.copy_(gradients[i]) : sum.add_(gradients[i]);
  }
  ++added_;
  ++gradients_;
}

void parameter_server::step() {
  if (added_ > 1)
    for (auto& parameter : model_.parameters()) parameter.mutable_grad().div_(double(added_));
  optimizer_.step();
  added_ = 0;
  ++steps_;
}

}  // namespace batch
