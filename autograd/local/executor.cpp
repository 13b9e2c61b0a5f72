#include "autograd/local/executor.hpp"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "autograd/local/node_call_internal.hpp"

namespace troupe::autograd {

using namespace detail;

namespace {

struct ready_node {
  Node* node;
  InputBuffer gradients;
  bool is_end;
};

// Ends hand gradients to somebody else, who may be waiting; they change nothing for the others.
bool is_end(const Node& node) {
  return node.num_outputs() == 0 && !dynamic_cast<const AccumulateGrad*>(&node);
}

// The engine's order. Among equals the heap decides, so it is that of std::priority_queue.
constexpr auto is_later = [](const ready_node& a, const ready_node& b) {
  return a.is_end == b.is_end ? a.node->sequence_nr() < b.node->sequence_nr() : b.is_end;
};

}  // namespace

class executor::pass {
public:
  pass(backward_plan plan, backward_options options, gradient_sink sink, settings which)
      : plan_(std::move(plan)),
        options_(options),
        sink_(std::move(sink)),
        has_arrived_(plan_.entries().size()),
        left_(plan_.size()) {
    if (plan_.entries().empty()) throw invalid_argument("a backward pass needs an entry");
    if (which == settings::of_maker) locals_.emplace();
  }

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
  // The thread has the settings of the pass.
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
  ready_node pop();
  void run_one(ready_node next);
  void wait_for_ends();
  void fail(Node& node) noexcept;

  backward_plan plan_;  // its awaited_: how many gradients each node still waits for
  const backward_options options_;
  const gradient_sink sink_;
  std::optional<at::ThreadLocalState> locals_;  // of the maker; setting them takes a microsecond
  std::unordered_map<Node*, InputBuffer> buffers_;
  std::vector<ready_node> ready_;  // a heap
  std::vector<bool> has_arrived_;  // or was left out
  std::unordered_set<std::size_t> left_out_;
  std::size_t left_;                               // nodes that have not run
  std::unordered_set<c10::Stream> ends_computed_;  // streams that the caller's must wait for
  std::optional<backward_error> failure_;
  bool is_running_ = false;
};

void executor::pass::check_awaited(std::size_t nr) const {
  if (nr >= has_arrived_.size())
    throw invalid_argument("no entry " + std::to_string(nr) + " in a backward pass of " +
                           std::to_string(has_arrived_.size()));
  if (has_arrived_[nr])
    throw invalid_argument("the gradients for entry " + std::to_string(nr) + " (" +
                           plan_.entries()[nr].node->name() + ") have arrived before");
}

void executor::pass::arrive(std::size_t nr, variable_list gradients) {
  if (failure_) throw *failure_;
  check_awaited(nr);
  const auto& at = plan_.entries()[nr];
  const as_set here(*this);
  fit(at, gradients);
  has_arrived_[nr] = true;
  try {
    auto& buffer = buffer_of(*at.node);
    const auto consumer = at.node->stream();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto producer = current_stream(gradients[i]);
      buffer.add(at.inputs[i], std::move(gradients[i]), producer, consumer, at.node.get());
    }
  } catch (...) {  // a sum that cannot be made
    fail(*at.node);
    throw *failure_;
  }
  take_off(*at.node, 1);
}

// Each node waits for as many less as a plan without those entries would have it wait for.
void executor::pass::leave_out(const std::vector<std::size_t>& entries) {
  if (failure_) throw *failure_;
  for (const auto nr : entries) check_awaited(nr);
  for (const auto nr : entries) has_arrived_[nr] = true;
  const std::unordered_set<std::size_t> out(entries.begin(), entries.end());
  backward_plan all, kept;
  std::vector<node_ptr> nodes;
  for (std::size_t i = 0; i < plan_.entries().size(); ++i) {
    if (left_out_.contains(i)) continue;
    all.add(plan_.entries()[i], [&](const node_ptr& node) { nodes.push_back(node); });
    if (!out.contains(i)) kept.add(plan_.entries()[i]);
  }
  left_out_.insert(out.begin(), out.end());
  for (const auto& node : nodes) {
    if (!kept.contains(node.get())) {
      --left_;
      plan_.awaited_.erase(node.get());
    } else if (const auto less = all.awaited(node.get()) - kept.awaited(node.get()); less > 0) {
      take_off(*node, less);
    }
  }
}

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
  wait_for_ends();
}

// The hot path: called for every node.
void executor::pass::run_one(ready_node next) {
  auto& node = *next.node;
  const at::AutoGradMode grad_mode(options_.create_graph);
  const auto stream = node.stream();
  const c10::OptionalStreamGuard on_stream(stream);
  RECORD_FUNCTION("autograd::engine::evaluate_function: " + node.name(),
                  c10::ArrayRef<const c10::IValue>());
  wait_for(next.gradients, stream);
  auto gradients = call_tensor_hooks(node, std::move(next.gradients.buffer));
  variable_list outputs;
  auto* leaf = node.num_outputs() == 0 ? dynamic_cast<AccumulateGrad*>(&node) : nullptr;
  if (leaf)
    hand_over(*leaf, std::move(gradients), sink_);
  else
    outputs = call(node, std::move(gradients), options_);
  if (outputs.empty() && stream) ends_computed_.insert(*stream);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& edge = node.next_edge(i);
    if (!edge.is_valid()) continue;
    auto& to = *edge.function;
    buffer_of(to).add(edge.input_nr, std::move(outputs[i]), stream, to.stream(), &to);
    take_off(to, 1);
  }
  --left_;
}

// Of the gradients that `node` waits for.
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
    const auto callers =
        c10::impl::VirtualGuardImpl(stream.device_type()).getStream(stream.device());
    if (callers == stream) continue;
    c10::Event event(stream.device_type());
    event.record(stream);
    callers.wait(event);
  }
  ends_computed_.clear();
}

void executor::pass::fail(Node& node) noexcept {
  ready_.clear();
  buffers_.clear();
  if (failure_) return;  // of arrive(), called by a node
  failure_.emplace(node.name(), std::current_exception());
  if (!torch::autograd::AnomalyMode::is_enabled()) return;
  try {
    node.metadata()->print_stack(node.name());
  } catch (...) {  // a warning that is taken for an error: there is one already
  }
}

executor::executor(backward_plan plan, backward_options options, gradient_sink sink, settings which)
    : pass_(std::make_unique<pass>(std::move(plan), options, std::move(sink), which)) {}

executor::~executor() = default;

void executor::arrive(std::size_t entry, std::vector<at::Tensor> gradients) {
  pass_->arrive(entry, std::move(gradients));
}

void executor::leave_out(const std::vector<std::size_t>& entries) { pass_->leave_out(entries); }

bool executor::blocked() const noexcept { return pass_->blocked(); }

bool executor::run() {
  pass_->run();
  return done();
}

bool executor::done() const noexcept { return pass_->done(); }

std::vector<std::size_t> executor::awaited() const { return pass_->awaited(); }

const backward_error* executor::failure() const noexcept { return pass_->failure(); }

}  // namespace troupe::autograd
