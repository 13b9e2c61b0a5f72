#include "apps/batch/parameter_server.hpp"

#include <fmt/format.h>

#include "apps/common/initial_weights.hpp"

namespace batch {

namespace {

constexpr double learning_rate = 3e-4;

}  // namespace

parameter_server::parameter_server(const network_shape& shape, std::uint64_t seed,
                                   std::size_t trainers)
    : model_(shape),
      optimizer_(model_.parameters(), torch::optim::AdamOptions(learning_rate)),
      gathering_(trainers, [this] {
        const std::lock_guard lock(mutex_);
        step();
        return parameters();
      }) {
  common::draw_weights(model_, common::make_generator(seed));
  for (auto& parameter : model_.parameters())
    parameter.mutable_grad() = at::empty_like(parameter.detach());
}

tensors parameter_server::fetch() {
  const std::lock_guard lock(mutex_);
  tensors copies;
  for (const auto& parameter : parameters()) copies.push_back(parameter.clone());
  return copies;
}

troupe::task<tensors> parameter_server::update_and_fetch(std::uint32_t trainer,
                                                         const tensors& gradients) {
  const auto updated = gathering_.come(trainer, [&] {
    const std::lock_guard lock(mutex_);
    add(gradients);
  });
  co_return co_await updated;
}

tensors parameter_server::update_alone_and_fetch(const tensors& gradients) {
  const std::lock_guard lock(mutex_);
  add(gradients);
  step();
  tensors copies;
  for (const auto& parameter : parameters()) copies.push_back(parameter.clone());
  return copies;
}

void parameter_server::add(const tensors& gradients) {
  const auto own = model_.parameters();
  if (gradients.size() != own.size())
    throw troupe::invalid_argument(fmt::format("{} gradients came for a model of {} parameters",
                                               gradients.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i)
    if (!gradients[i].defined() || gradients[i].sizes() != own[i].sizes() ||
        gradients[i].scalar_type() != own[i].scalar_type())
      throw troupe::invalid_argument(
          fmt::format("gradient {} is not of its parameter's shape and type", i));
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

tensors parameter_server::parameters() const {
  tensors out;
  for (const auto& parameter : model_.parameters()) out.push_back(parameter.detach());
  return out;
}

tensors fetch(const keeper& server) { return keeper_of<parameter_server>::object(server).fetch(); }

troupe::task<tensors> update_and_fetch(const keeper& server, std::uint32_t trainer,
                                       const tensors& gradients) {
  return keeper_of<parameter_server>::object(server).update_and_fetch(trainer, gradients);
}

tensors update_alone_and_fetch(const keeper& server, const tensors& gradients) {
  return keeper_of<parameter_server>::object(server).update_alone_and_fetch(gradients);
}

}  // namespace batch
