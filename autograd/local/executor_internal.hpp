#pragma once

#include <ATen/ThreadLocalState.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "troupe/autograd/local/deferred_weight_gradients.hpp"
#include "troupe/autograd/local/executor.hpp"
#include "troupe/autograd/local/node_call_internal.hpp"
#include "troupe/autograd/local/split_policy.hpp"

namespace troupe::autograd {

namespace detail {

/// A node that has all its gradients.
struct ready_node {
  Node* node;
  InputBuffer gradients;
  bool is_end;
};

}  // namespace detail

/// What arrives is in executor.cpp, what runs in executor_run.cpp.
class executor::pass {
  using InputBuffer = detail::InputBuffer;
  using Node = detail::Node;
  using variable_list = detail::variable_list;

public:
  pass(backward_plan plan, backward_options options, gradient_sink sink, settings which);

  void arrive(std::size_t entry, variable_list gradients);
  void leave_out(const std::vector<std::size_t>& entries);
  void run();

  bool blocked() const noexcept { return !buffers_.empty(); }
  bool done() const noexcept { return left_ == 0; }
  const backward_error* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  std::vector<std::size_t> awaited() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < has_arrived_.size(); ++i)
      if (!has_arrived_[i]) out.push_back(i);
    return out;
  }

private:
  // While it lives, the calling thread has the settings of the pass.
  class as_set {
  public:
    explicit as_set(const pass& of) : grad_mode_(of.options_.create_graph) {
      if (!of.locals_) return;
      locals_.emplace(*of.locals_);
      at::GradMode::set_enabled(of.options_.create_graph);
    }

  private:
    const at::AutoGradMode grad_mode_;
    std::optional<at::ThreadLocalStateGuard> locals_;
  };

  InputBuffer& buffer_of(Node& node) {
    return buffers_.try_emplace(&node, node.num_inputs()).first->second;
  }
  void check_awaited(std::size_t entry) const;
  void take_off(Node& node, std::size_t count);
  detail::ready_node pop();
  void run_ready();
  void run_one(detail::ready_node&& next);
  void run_input_part(Node& node, detail::split_call&& calls, const std::optional<c10::Stream>& on);
  void run_deferred();
  void pass_on(const Node& from, variable_list&& gradients, const std::optional<c10::Stream>& on);
  void wait_for_ends();
  void fail(Node& node) noexcept;

  backward_plan plan_;  // its awaited_: how many gradients each node still waits for
  const backward_options options_;
  const gradient_sink sink_;
  std::optional<at::ThreadLocalState> locals_;  // the maker's; setting them takes a microsecond
  std::unordered_map<Node*, InputBuffer> buffers_;
  std::vector<detail::ready_node> ready_;  // a heap
  std::vector<bool> has_arrived_;          // or was left out
  std::unordered_set<std::size_t> left_out_;
  std::size_t left_;       // nodes that have not run
  std::size_t ends_left_;  // of these
  detail::split_policy policy_;
  detail::deferred_weight_gradients deferred_;
  bool in_deferred_ = false;  // a weight part, or what it leads to, runs
  std::unordered_set<c10::Stream>
      ends_computed_;  // streams that the caller's streams must wait for
  std::optional<backward_error> failure_;
  bool is_running_ = false;
};

}  // namespace troupe::autograd
