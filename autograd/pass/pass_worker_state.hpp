#pragma once

#include <caf/error.hpp>
#include <caf/result.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "troupe/autograd/pass/pass_runner.hpp"

namespace troupe::autograd::detail {

/// The state of a pass_actor: the passes of the context that it works for. Only the actor uses it,
/// but for `attach` and `is_free`.
class pass_worker_state {
public:
  explicit pass_worker_state(node_core& node) : node_(node) {}

  node_core& node() const noexcept { return node_; }

  /// From now on the actor, which is free, works for that context. Call it while nobody else has a
  /// handle of the actor.
  void attach(std::shared_ptr<participant> part) { part_ = std::move(part); }

  /// The context is over.
  void leave();

  /// It works for no context. Call it while nobody else has a handle of the actor.
  bool is_free() const noexcept { return part_ == nullptr; }

  /// Runs one step: `work` gets the pass, and a list that takes the steps that follow from it. A
  /// step that throws fails the pass on all nodes.
  template <class Work>
  caf::result<step_report> step(const pass_info& what, std::uint64_t number, const Work& work) {
    try {
      auto& pass = pass_of(what);
      step_report report;
      report.step = number;
      work(pass, report.caused);
      report.standing = pass.standing();
      if (pass.done()) passes_.erase(what.number);
      return report;
    } catch (...) {
      return fail(what);
    }
  }

  /// Drops a pass that has failed, refuses its late steps, and notifies the members that this node
  /// knows; each of them does the same, once.
  void forget(const forget_pass& what);

private:
  static constexpr std::size_t most_forgotten = 1024;

  pass_runner& pass_of(const pass_info& what);
  caf::error fail(const pass_info& what);  // with the exception that is being handled
  bool works_for(std::uint64_t context) const noexcept { return part_ && part_->id() == context; }

  node_core& node_;
  std::shared_ptr<participant> part_;
  std::unordered_map<std::uint64_t, std::unique_ptr<pass_runner>> passes_;
  std::unordered_set<std::uint64_t> forgotten_;
  std::deque<std::uint64_t> order_;  // of forgotten_
};

}  // namespace troupe::autograd::detail
