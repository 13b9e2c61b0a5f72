#include "troupe/apps/pipeline/pipelined.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>

namespace pipeline {

namespace {

std::vector<troupe::rref<stage>> make_stages(const troupe::node& here,
                                             const std::vector<troupe::worker_info>& places,
                                             const network_shape& shape) {
  const auto ranges = cut(layer_costs(shape), places.size());
  std::vector<troupe::rref<stage>> out;
  for (std::size_t i = 0; i < places.size(); ++i)
    out.push_back(here.remote<stage>(places[i], shape, ranges[i].first, ranges[i].end));
  return out;
}

template <class T>
std::vector<T> all_of(const std::vector<troupe::future<T>>& asked) {
  std::vector<T> out;
  out.reserve(asked.size());
  for (const auto& one : asked) out.push_back(one.get());
  return out;
}

}  // namespace

std::vector<double> layer_costs(const network_shape& shape) {
  std::vector<double> out;
  for (const auto& one : make_layers(shape)) out.push_back(one->operations());
  return out;
}

pipelined_learner::pipelined_learner(const troupe::node& here,
                                     const std::vector<troupe::worker_info>& places,
                                     const hyperparameters& chosen, std::int64_t micro_batches)
    : here_(here),
      micro_batches_(micro_batches),
      stages_(make_stages(here, places, {chosen.width, chosen.blocks, chosen.seed})),
      optimizer_(parameters(),
                 torch::optim::SGDOptions(chosen.learning_rate).momentum(chosen.momentum)) {}

std::vector<troupe::rref<at::Tensor>> pipelined_learner::parameters() const {
  std::vector<troupe::rref<at::Tensor>> out;
  for (const auto& one : stages_)
    for (const auto& parameter : one.rpc_sync<&stage::parameters>()) out.push_back(parameter);
  return out;
}

// Returns when all stages have answered, so that no later step changes what they are.
pipelined_learner::passage pipelined_learner::versions() const {
  std::vector<troupe::future<troupe::rref<stage_version>>> asked;
  asked.reserve(stages_.size());
  for (const auto& one : stages_) asked.push_back(one.rpc_async<&stage::version>());
  return all_of(asked);
}

// Waits for nothing: each stage fetches its input from the one before, as soon as it is there.
troupe::future<at::Tensor> pipelined_learner::send_through(const passage& stages,
                                                           const at::Tensor& images) {
  if (stages.size() == 1) return stages[0].rpc_async<&stage_version::forward>(images);
  auto made = stages[0].remote<&stage_version::forward>(images);
  for (std::size_t i = 1; i + 1 < stages.size(); ++i)
    made = stages[i].remote<&stage_version::forward>(made);
  return stages.back().rpc_async<&stage_version::forward>(made);
}

void pipelined_learner::begin(const digits& batch) {
  const troupe::autograd::within outside(0);  // contexts overlap: none is inside of another
  flight next{std::make_unique<troupe::autograd::context>(here_), {}, batch.labels};
  const auto now = versions();
  for (const auto& images : batch.images.tensor_split(std::min(micro_batches_, batch.size())))
    next.scores.push_back(send_through(now, images));
  under_way_.push_back(std::move(next));
}

double pipelined_learner::finish() {
  const auto oldest = std::move(under_way_.front());
  under_way_.pop_front();
  const auto scores = at::cat(all_of(oldest.scores));
  const auto loss = at::cross_entropy_loss(scores, oldest.labels);
  oldest.context->backward({loss});
  optimizer_.step(*oldest.context);
  return loss.item<double>();
}

at::Tensor pipelined_learner::scores(const at::Tensor& images) {
  return send_through(versions(), images).get();
}

std::vector<at::Tensor> pipelined_learner::weights() {
  std::vector<at::Tensor> out;
  for (const auto& one : stages_)
    for (const auto& weight : one.rpc_sync<&stage::weights>()) out.push_back(weight);
  return out;
}

}  // namespace pipeline
