// How the nodes of a pass run.

#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/autograd/local/executor_internal.hpp"
#include "troupe/messages/tensor/current_stream.hpp"

namespace troupe::autograd {

using namespace detail;

namespace {

// The engine's order, except that ends come first: they hand gradients to another node, which may
// be waiting for them, and other results do not depend on them. Among equals the heap decides, so
// it is used as std::priority_queue does in the engine.
constexpr auto is_later = [](const ready_node& a, const ready_node& b) {
  return a.is_end == b.is_end ? a.node->sequence_nr() < b.node->sequence_nr() : b.is_end;
};

}  // namespace

void executor::pass::run() {
  if (failure_) throw *failure_;
  if (is_running_) throw invalid_argument("a backward pass was run from within itself");
  if (torch::autograd::get_current_graph_task_id() != -1)
    throw invalid_argument(
        "autograd::executor cannot run within a backward pass of libtorch's engine: run it on "
        "another thread, or use autograd::run_in_engine");
  struct running {
    explicit running(bool& flag) : flag_(flag) { flag_ = true; }
    ~running() { flag_ = false; }
    bool& flag_;
  } const is_running(is_running_);
  {
    const as_set here(*this);
    run_ready();
    while (!deferred_.empty()) run_deferred();
  }
  wait_for_ends();
}

void executor::pass::run_ready() {
  while (!ready_.empty()) {
    auto next = pop();
    auto& node = *next.node;
    try {
      run_one(std::move(next));
    } catch (...) {
      fail(node);
    }
    if (failure_) throw *failure_;
  }
}

// The hot path: called for every node.
void executor::pass::run_one(ready_node&& next) {
  auto& node = *next.node;
  const at::AutoGradMode grad_mode(options_.create_graph);
  const auto stream = node.stream();
  const c10::OptionalStreamGuard on_stream(stream);
  RECORD_FUNCTION("autograd::engine::evaluate_function: " + node.name(),
                  c10::ArrayRef<const c10::IValue>());
  wait_for(next.gradients, stream);
  auto gradients = call_tensor_hooks(node, std::move(next.gradients.buffer));
  if (ends_left_ > 0 && !in_deferred_ && !options_.create_graph)
    if (auto calls = policy_.choose(node, gradients, deferred_.bytes()))
      return run_input_part(node, std::move(*calls), stream);
  variable_list outputs;
  auto* leaf = node.num_outputs() == 0 ? dynamic_cast<AccumulateGrad*>(&node) : nullptr;
  if (leaf)
    hand_over(*leaf, std::move(gradients), sink_);
  else
    outputs = call(node, std::move(gradients), options_);
  if (outputs.empty() && stream) ends_computed_.insert(*stream);
  if (next.is_end) --ends_left_;
  pass_on(node, std::move(outputs), stream);
  --left_;
}

void executor::pass::run_input_part(Node& node, split_call&& calls,
                                    const std::optional<c10::Stream>& on) {
  auto gradients = call(*calls.input_part, calls.weight_part.gradients, options_);
  if (!options_.keep_graph) node.release_variables();
  pass_on(*calls.input_part, std::move(gradients), on);
  deferred_.push(std::move(calls.weight_part));
}

// A weight part runs with all that it leads to, while other ready nodes wait: that keeps sums in
// the engine's order (split_policy).
void executor::pass::run_deferred() {
  struct only_this {
    explicit only_this(pass& of) : of_(of) {
      others_.swap(of.ready_);
      of.in_deferred_ = true;
    }
    ~only_this() {
      others_.swap(of_.ready_);
      of_.in_deferred_ = false;
    }
    pass& of_;
    std::vector<ready_node> others_;
  };
  auto next = deferred_.pop();
  const only_this now(*this);
  try {
    ready_.push_back({next.node.get(), InputBuffer(std::move(next.gradients)), false});
    run_ready();
  } catch (...) {
    fail(*next.node);
    throw *failure_;
  }
}

void executor::pass::pass_on(const Node& from, variable_list&& gradients,
                             const std::optional<c10::Stream>& on) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& edge = from.next_edge(i);
    if (!edge.is_valid()) continue;
    auto& to = *edge.function;
    while (!in_deferred_ && !deferred_.empty() && deferred_.leads_to(to)) run_deferred();
    buffer_of(to).add(edge.input_nr, std::move(gradients[i]), on, to.stream(), &to);
    take_off(to, 1);
  }
}

// `node` waits for `count` gradients less.
void executor::pass::take_off(Node& node, std::size_t count) {
  const auto it = plan_.awaited_.find(&node);
  if (it == plan_.awaited_.end() || it->second < count)
    throw internal_error("the graph has changed since the backward pass was planned: " +
                         node.name() + " got one gradient too many");
  if ((it->second -= count) > 0) return;
  auto buffer = buffers_.extract(&node);
  ready_.push_back({&node, std::move(buffer.mapped()), is_end(node)});
  std::push_heap(ready_.begin(), ready_.end(), is_later);
}

ready_node executor::pass::pop() {
  std::pop_heap(ready_.begin(), ready_.end(), is_later);
  auto next = std::move(ready_.back());
  ready_.pop_back();
  return next;
}

void executor::pass::wait_for_ends() {
  for (const auto& stream : ends_computed_) {
    const auto callers = troupe::current_stream(stream.device());
    if (callers == stream) continue;
    c10::Event event(stream.device_type());
    event.record(stream);
    callers.wait(event);
  }
  ends_computed_.clear();
}

void executor::pass::fail(Node& node) noexcept {
  ready_.clear();
  deferred_.clear();
  buffers_.clear();
  if (failure_) return;  // arrive() failed, called by the node that fails now
  failure_.emplace(node.name(), std::current_exception());
  if (!torch::autograd::AnomalyMode::is_enabled()) return;
  try {
    node.metadata()->print_stack(node.name());
  } catch (...) {  // warnings are errors: the pass has one already
  }
}

}  // namespace troupe::autograd
