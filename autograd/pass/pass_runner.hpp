#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/autograd/context/participant.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/autograd/local/executor.hpp"
#include "troupe/autograd/pass/pass_messages.hpp"

namespace troupe {

class node_core;

}  // namespace troupe

namespace troupe::autograd::detail {

/// One node's part in one backward pass. One thread at a time.
class pass_runner final : private remote_gradient_sink {
public:
  using steps = std::vector<next_step>;

  pass_runner(node_core& node, std::shared_ptr<participant> part, const pass_info& what);
  ~pass_runner();
  pass_runner(const pass_runner&) = delete;
  pass_runner& operator=(const pass_runner&) = delete;

  /// Walks the local graph from roots, or from messages that this node has sent, and marks the
  /// messages it has received that they depend on. For those that no walk has found before, begins
  /// a step on the sender, and appends it to `caused`. Throws invalid_argument for a message that
  /// was not recorded.
  void walk(const std::vector<at::Tensor>& roots, steps& caused);
  void walk(const std::vector<std::uint64_t>& numbers, steps& caused);

  /// Takes gradients, of the roots (ones if `gradients` is empty) or of a message, and runs what
  /// they make ready. Appends the steps of the nodes that it sends gradients to. Throws
  /// backward_error, invalid_argument.
  void run(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
           steps& caused);
  void run(gradients_arrive&& what, steps& caused);

  /// The walk is over: leaves out what it has not marked, and goes on.
  void resume(steps& caused);

  pass_standing standing() const;

  /// All that was planned has run.
  bool done() const noexcept { return done_; }

private:
  // With create_graph, the messages of the pass are recorded in the context themselves.
  call_context works_for() const noexcept {
    if (!what_.create_graph) return troupe::detail::apart();
    return {{}, part_->id()};
  }
  void take(const recv_rpc_backward& of, std::vector<at::Tensor>&& gradients) override;
  std::size_t add_send(backward_plan& to, std::uint64_t number,
                       const backward_plan::visitor& reached) const;
  void complete_plan();
  void leave_out_unmarked();
  void run_executor(steps& caused);
  std::vector<std::uint64_t> awaited() const;  // messages whose gradients have not arrived
  void request_marks_of(const std::vector<std::shared_ptr<recv_rpc_backward>>& found,
                        steps& caused);
  void arrive(std::size_t first, std::vector<std::vector<at::Tensor>>&& gradients, steps& caused);

  node_core& node_;
  const std::shared_ptr<participant> part_;
  const pass_info what_;
  backward_plan plan_;  // until there is an executor
  std::optional<backward_plan> walked_;
  std::unordered_set<std::uint64_t> marked_;              // numbers of messages
  std::unordered_map<std::uint64_t, std::size_t> sends_;  // entries of the plan, by number
  std::unique_ptr<executor> executor_;                    // since the first arrival
  steps* caused_ = nullptr;                               // while it runs
  std::uint64_t arrivals_ = 0;
  bool planned_ = false;
  bool knows_walk_ = false;  // the walk is over: gradients come for marked messages only
  bool done_ = false;
};

}  // namespace troupe::autograd::detail
