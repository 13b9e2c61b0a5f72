#include "troupe/apps/batch/trainer.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <numeric>

#include "troupe/apps/common/initial_weights.hpp"

namespace batch {

namespace {

double mean(std::vector<double>::const_iterator from, std::size_t count) {
  return std::accumulate(from, from + static_cast<std::ptrdiff_t>(count), 0.0) / double(count);
}

}  // namespace

training_result train(const training& task) {
  network model(task.shape);
  auto samples = common::make_generator(task.seed + 1 + task.trainer);
  const auto truth =
      at::randn({task.shape.inputs, task.shape.outputs}, common::make_generator(task.seed));
  std::vector<double> losses;
  common::adopt(model, task.server.rpc_sync<&parameter_server::fetch>());
  for (int round = 0; round < task.rounds; ++round) {
    const auto x = at::randn({task.samples, task.shape.inputs}, samples);
    const auto loss = at::cross_entropy_loss(model.forward(x), x.matmul(truth).argmax(1));
    loss.backward();
    losses.push_back(loss.item<double>());
    const auto gradients = common::gradients_of(model);
    common::adopt(
        model,
        task.together
            ? task.server.rpc_sync<&parameter_server::update_and_fetch>(task.trainer, gradients)
            : task.server.rpc_sync<&parameter_server::update_alone_and_fetch>(gradients));
  }
  const std::size_t tenth = std::max<std::size_t>(losses.size() / 10, 1);
  return {mean(losses.begin(), tenth),
          mean(losses.end() - static_cast<std::ptrdiff_t>(tenth), tenth)};
}

}  // namespace batch
