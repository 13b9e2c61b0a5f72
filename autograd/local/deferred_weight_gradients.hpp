#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::autograd::detail {

/// The rest of a node that was split (split_node), with the gradients for it.
struct waiting_rest {
  node_ptr node;
  std::vector<at::Tensor> gradients;
  std::size_t bytes;                                   ///< that it keeps
  std::vector<const torch::autograd::Node*> leads_to;  ///< every node that it reaches
};

/// Those of one pass, the one that has waited longest first. One thread at a time.
class waiting_rests {
public:
  bool empty() const noexcept { return all_.empty(); }
  /// That they keep.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Does one of them lead there?
  bool lead_to(const torch::autograd::Node& node) const { return targets_.contains(&node); }

  void push(waiting_rest one) {
    bytes_ += one.bytes;
    for (const auto* node : one.leads_to) ++targets_[node];
    all_.push_back(std::move(one));
  }

  waiting_rest pop() {
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
  std::deque<waiting_rest> all_;
  std::unordered_map<const torch::autograd::Node*, std::size_t>
      targets_;  // and how many lead there
  std::size_t bytes_ = 0;
};

}  // namespace troupe::autograd::detail
