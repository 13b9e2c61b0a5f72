#pragma once

// The edges of the part of a graph that is on one node: where gradients enter and where they leave.

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::test {

inline autograd::entry entry_of(const at::Tensor& t) {
  const auto edge = torch::autograd::impl::gradient_edge(t);
  return {edge.function, {edge.input_nr}};
}

inline autograd::backward_plan plan_of(const std::vector<at::Tensor>& roots) {
  autograd::backward_plan out;
  for (const auto& one : roots) out.add(entry_of(one));
  return out;
}

/// Stands for a message that was received: keeps what it is given. Threads may call it at once.
struct receive_node : torch::autograd::Node {
  std::string name() const override { return "receive"; }
  torch::autograd::variable_list got;
  int calls = 0;
  std::function<void()> when_called;

protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& g) override {
    const std::lock_guard lock(mutex_);
    ++calls;
    got = std::move(g);
    if (when_called) when_called();
    return {};
  }

private:
  std::mutex mutex_;
};

/// A tensor that such a message has brought.
struct received {
  std::shared_ptr<receive_node> node{new receive_node, torch::autograd::deleteNode};
  at::Tensor tensor;
  explicit received(at::Tensor value = torch::full({2}, 3.0)) : tensor(std::move(value)) {
    torch::autograd::create_gradient_edge(tensor, node);
  }
};

}  // namespace troupe::test
