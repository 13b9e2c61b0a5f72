#include "troupe/apps/rnn/clipping.hpp"

#include <ATen/core/grad_mode.h>
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
  for (const auto& gradient : gradients)
    if (gradient.defined()) gradient.mul_(factor);
}

gradient_share::gradient_share(const std::vector<troupe::rref<at::Tensor>>& parameters) {
  for (const auto& one : parameters) parameters_.push_back(one.local_value());
}

std::vector<at::Tensor> gradient_share::mine(const troupe::autograd::gradients& all) const {
  std::vector<at::Tensor> out;
  out.reserve(parameters_.size());
  for (const auto& one : parameters_) out.push_back(all[one]);
  return out;
}

std::vector<double> gradient_share::squared_norms_in(const troupe::autograd::gradients& all) const {
  std::vector<double> out;
  for (const auto& gradient : mine(all)) out.push_back(squared_norm(gradient));
  return out;
}

void gradient_share::scale_in(const troupe::autograd::gradients& all, double factor) const {
  rnn::scale(mine(all), factor);
}

std::vector<double> gradient_share::squared_norms(std::uint64_t context) const {
  return squared_norms_in(troupe::autograd::get_gradients(troupe::this_node(), context));
}

void gradient_share::scale(std::uint64_t context, double factor) const {
  scale_in(troupe::autograd::get_gradients(troupe::this_node(), context), factor);
}

clipper::clipper(const troupe::node& here, const std::vector<troupe::rref<at::Tensor>>& parameters,
                 double largest)
    : rank_(here.rank()), count_(parameters.size()), largest_(largest) {
  std::map<std::uint32_t, std::vector<std::size_t>> by_owner;
  for (std::size_t i = 0; i < count_; ++i) by_owner[parameters[i].owner().id].push_back(i);
  for (auto& [owner, places] : by_owner) {
    std::vector<troupe::rref<at::Tensor>> theirs;
    for (const auto i : places) theirs.push_back(parameters[i]);
    parts_.push_back({here.remote<gradient_share>(owner, theirs), std::move(places)});
  }
}

// The other nodes are asked first, and do it while this one does its own part here.
template <class Ask, class Do>
void clipper::for_all(const Ask& ask, const Do& do_here) const {
  for (const auto& part : parts_)
    if (part.share.owner().id != rank_) ask(part);
  for (const auto& part : parts_)
    if (part.share.owner().id == rank_) do_here(part, part.share.local_value());
}

void clipper::clip(const troupe::autograd::context& context) const {
  std::vector<double> norms(count_);
  const auto note = [&](const part& of, const std::vector<double>& squares) {
    for (std::size_t k = 0; k < squares.size(); ++k) norms[of.places[k]] = squares[k];
  };
  const auto mine = context.get_gradients();
  std::vector<std::pair<const part*, troupe::future<std::vector<double>>>> asked;
  for_all(
      [&](const part& one) {
        asked.emplace_back(&one, one.share.rpc_async<&gradient_share::squared_norms>(context.id()));
      },
      [&](const part& one, const gradient_share& share) {
        note(one, share.squared_norms_in(mine));
      });
  for (const auto& [of, squares] : asked) note(*of, squares.get());
  const double factor = clip_factor(norms, largest_);
  if (factor == 1) return;
  std::vector<troupe::future<void>> told;
  for_all(
      [&](const part& one) {
        told.push_back(one.share.rpc_async<&gradient_share::scale>(context.id(), factor));
      },
      [&](const part&, const gradient_share& share) { share.scale_in(mine, factor); });
  for (const auto& one : told) one.get();
}

}  // namespace rnn
