#include "apps/rnn/clipping.hpp"

#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace rnn {

double squared_norm(const at::Tensor& gradient) {
  if (!gradient.defined()) return 0;
  const auto values = gradient.is_sparse() ? gradient.coalesce().values() : gradient;
  const auto norm = at::linalg_vector_norm(values).item<double>();
  return norm * norm;
}

double clip_factor(const std::vector<double>& squared_norms, double largest) {
  // In the given order, so that the sum does not depend on where the gradients are.
  const double norm = std::sqrt(std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0));
  return std::min(1.0, largest / (norm + 1e-6));
}

void scale(const std::vector<at::Tensor>& gradients, double factor) {
  const at::NoGradGuard no_grad;
  for (auto gradient : gradients)
    if (gradient.defined()) gradient.mul_(factor);
}

gradient_share::gradient_share(const std::vector<troupe::rref<at::Tensor>>& parameters) {
  for (const auto& one : parameters) parameters_.push_back(one.local_value());
}

std::vector<at::Tensor> gradient_share::gradients(std::uint64_t context) const {
  const auto all = troupe::autograd::get_gradients(troupe::this_node(), context);
  std::vector<at::Tensor> out;
  for (const auto& one : parameters_) out.push_back(all[one]);
  return out;
}

std::vector<double> gradient_share::squared_norms(std::uint64_t context) const {
  std::vector<double> out;
  for (const auto& gradient : gradients(context)) out.push_back(squared_norm(gradient));
  return out;
}

void gradient_share::scale(std::uint64_t context, double factor) const {
  rnn::scale(gradients(context), factor);
}

clipper::clipper(const troupe::node& here, const std::vector<troupe::rref<at::Tensor>>& parameters,
                 double largest)
    : count_(parameters.size()), largest_(largest) {
  std::map<std::uint32_t, std::vector<std::size_t>> by_owner;
  for (std::size_t i = 0; i < count_; ++i) by_owner[parameters[i].owner().id].push_back(i);
  for (auto& [owner, places] : by_owner) {
    std::vector<troupe::rref<at::Tensor>> theirs;
    for (const auto i : places) theirs.push_back(parameters[i]);
    parts_.push_back({here.remote<gradient_share>(owner, theirs), std::move(places)});
  }
}

void clipper::clip(const troupe::autograd::context& context) const {
  std::vector<troupe::future<std::vector<double>>> asked;
  for (const auto& part : parts_)
    asked.push_back(part.share.rpc_async<&gradient_share::squared_norms>(context.id()));
  std::vector<double> norms(count_);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    for (std::size_t k = 0; k < parts_[i].places.size(); ++k)
      norms[parts_[i].places[k]] = asked[i].get()[k];
  const double factor = clip_factor(norms, largest_);
  if (factor == 1) return;
  std::vector<troupe::future<void>> told;
  for (const auto& part : parts_)
    told.push_back(part.share.rpc_async<&gradient_share::scale>(context.id(), factor));
  for (const auto& one : told) one.get();
}

}  // namespace rnn
