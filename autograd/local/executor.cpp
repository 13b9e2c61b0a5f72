#include "troupe/autograd/local/executor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/autograd/local/executor_internal.hpp"

namespace troupe::autograd {

using namespace detail;

namespace {

std::size_t count_ends(const backward_plan& plan) {
  return std::size_t(std::count_if(plan.ends().begin(), plan.ends().end(),
                                   [](const node_ptr& one) { return is_end(*one); }));
}

}  // namespace

executor::pass::pass(backward_plan plan, backward_options options, gradient_sink sink,
                     settings which)
    : plan_(std::move(plan)),
      options_(options),
      sink_(std::move(sink)),
      has_arrived_(plan_.entries().size()),
      left_(plan_.size()),
      ends_left_(count_ends(plan_)),
      policy_(plan_) {
  if (plan_.entries().empty()) throw invalid_argument("a backward pass needs an entry");
  if (which == settings::of_maker) locals_.emplace();
}

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

// A node waits for as many gradients less as it would in a plan without those entries: the
// difference of two plans, one with and one without them.
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
      if (is_end(*node)) --ends_left_;
      plan_.awaited_.erase(node.get());
    } else if (const auto less = all.awaited(node.get()) - kept.awaited(node.get()); less > 0) {
      take_off(*node, less);
    }
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
