#include "apps/batch/trainer.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <numeric>

#include "apps/batch/parameter_server.hpp"
#include "apps/common/initial_weights.hpp"

namespace batch {

namespace {

// The model's parameters become the tensors that have come, without a copy.
void adopt(network& model, const tensors& parameters) {
  auto own = model.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].set_data(parameters.at(i));
    own[i].mutable_grad() = at::Tensor();
  }
}

tensors gradients_of(const network& model) {
  tensors out;
  for (const auto& parameter : model.parameters()) out.push_back(parameter.grad());
  return out;
}

double mean(std::vector<double>::const_iterator from, std::size_t count) {
  return std::accumulate(from, from + static_cast<std::ptrdiff_t>(count), 0.0) / double(count);
}

}  // namespace

training_result train(const training& task) {
  const auto node = troupe::this_node();
  network model(task.shape);
  auto samples = common::make_generator(task.seed + 1 + task.trainer);
  const auto truth =
      at::randn({task.shape.inputs, task.shape.outputs}, common::make_generator(task.seed));
  std::vector<double> losses;
  adopt(model, node.rpc_sync<&fetch>(task.server_rank, task.server));
  for (int round = 0; round < task.rounds; ++round) {
    const auto x = at::randn({task.samples, task.shape.inputs}, samples);
    const auto loss = at::cross_entropy_loss(model.forward(x), x.matmul(truth).argmax(1));
    loss.backward();
    losses.push_back(loss.item<double>());
    const auto gradients = gradients_of(model);
    if (task.together)
      adopt(model, node.rpc_sync<&update_and_fetch>(task.server_rank, task.server, task.trainer,
                                                    gradients));
    else
      adopt(model,
            node.rpc_sync<&update_alone_and_fetch>(task.server_rank, task.server, gradients));
  }
  const std::size_t tenth = std::max<std::size_t>(losses.size() / 10, 1);
  return {mean(losses.begin(), tenth),
          mean(losses.end() - static_cast<std::ptrdiff_t>(tenth), tenth)};
}

}  // namespace batch
