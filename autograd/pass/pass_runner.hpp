#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "troupe/autograd/local/executor.hpp"
#include "troupe/autograd/context/participant.hpp"

namespace troupe::autograd::detail {

/// The part of one node in one backward pass. One thread at a time.
class pass_part final : private gradient_taker {
public:
  using steps = std::vector<next_step>;

  pass_part(node_core& node, std::shared_ptr<participant> part, const pass_info& what);
  ~pass_part();
  pass_part(const pass_part&) = delete;
  pass_part& operator=(const pass_part&) = delete;

  /// Walks from roots, or from messages of this node. Appends the steps of those nodes of whose
  /// messages it finds results, which no walk has found before. Throws invalid_argument for a
  /// message that was not recorded.
  void walk(const std::vector<at::Tensor>& roots, steps& caused);
  void walk(const std::vector<std::uint64_t>& numbers, steps& caused);

  /// Gradients are there; runs what they set free. Appends the steps of those to whom it sends
  /// gradients. `gradients`: of the roots, ones if it is empty. Throws backward_error,
  /// invalid_argument.
  void run(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
           steps& caused);
  void run(gradients_arrive&& what, steps& caused);

  /// The walk is over.
  void resume(steps& caused);

  pass_standing standing() const;

  /// All that was planned has run.
  bool done() const noexcept { return done_; }

private:
  // What others are sent belongs to the context if it shall be differentiated itself.
  call_context works_for() const noexcept {
    if (!what_.create_graph) return troupe::detail::apart();
    return {{}, part_->id()};
  }
  void take(const receive_node& of, std::vector<at::Tensor>&& gradients) override;
  std::size_t add_send(backward_plan& to, std::uint64_t number,
                       const backward_plan::visitor& reached) const;
  void complete_plan();
  void leave_out_unmarked();
  void run_executor(steps& caused);
  std::vector<std::uint64_t> awaited() const;  // messages whose gradients have not come
  void ask(const std::vector<std::shared_ptr<receive_node>>& found, steps& caused);
  void arrive(std::size_t first, std::vector<std::vector<at::Tensor>>&& gradients, steps& caused);

  node_core& node_;
  const std::shared_ptr<participant> part_;
  const pass_info what_;
  backward_plan plan_;  // until there is an executor
  std::optional<backward_plan> walked_;
  std::unordered_set<std::uint64_t> marked_;              // messages
  std::unordered_map<std::uint64_t, std::size_t> sends_;  // entries by number
  std::unique_ptr<executor> executor_;                    // since the first arrival
  steps* caused_ = nullptr;                               // while it runs
  std::uint64_t arrivals_ = 0;
  bool planned_ = false;
  bool knows_walk_ = false;  // for messages that it has not marked no gradients will come
  bool done_ = false;
};

}  // namespace troupe::autograd::detail
