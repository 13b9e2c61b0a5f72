#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::autograd::detail {

/// The weight part of a node that was split (split_node), and the gradients to call it with.
struct deferred_weight_gradient {
  node_ptr node;
  std::vector<at::Tensor> gradients;
  std::size_t bytes;                                   ///< that it keeps alive
  std::vector<const torch::autograd::Node*> leads_to;  ///< every node that it reaches
};

/// Those of one pass, first in, first out. One thread at a time.
class deferred_weight_gradients {
public:
  bool empty() const noexcept { return all_.empty(); }
  /// That all of them keep alive.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Does one of them lead there?
  bool leads_to(const torch::autograd::Node& node) const { return targets_.contains(&node); }

  void push(deferred_weight_gradient one) {
    bytes_ += one.bytes;
    for (const auto* node : one.leads_to) ++targets_[node];
    all_.push_back(std::move(one));
  }

  deferred_weight_gradient pop() {
    auto one = std::move(all_.front());
    all_.pop_front();
    bytes_ -= one.bytes;
    for (const auto* node : one.leads_to)
      if (const auto it = targets_.find(node); --it->second == 0) targets_.erase(it);
    return one;
  }

  void clear() noexcept {
    all_.clear();
    targets_.clear();
    bytes_ = 0;
  }

private:
  std::deque<deferred_weight_gradient> all_;
  std::unordered_map<const torch::autograd::Node*, std::size_t> targets_;  // how many lead there
  std::size_t bytes_ = 0;
};

}  // namespace troupe::autograd::detail
