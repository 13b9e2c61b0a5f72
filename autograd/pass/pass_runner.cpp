#include "troupe/autograd/pass/pass_runner.hpp"

#include <ATen/ops/ones_like.h>

#include <map>
#include <utility>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/local/engine_run.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::autograd::detail {

pass_runner::pass_runner(node_core& node, std::shared_ptr<participant> part, const pass_info& what)
    : node_(node), part_(std::move(part)), what_(what) {
  context_table::of(node_).pass_begins();
}

pass_runner::~pass_runner() { context_table::of(node_).pass_ends(); }

// ---- Planning

namespace {

void add_roots(backward_plan& to, const std::vector<at::Tensor>& roots,
               const backward_plan::visitor& reached) {
  for (const auto& root : roots)
    to.add({root.grad_fn(), {static_cast<std::uint32_t>(root.output_nr())}}, reached);
}

}  // namespace

std::size_t pass_runner::add_send(backward_plan& to, std::uint64_t number,
                                  const backward_plan::visitor& reached) const {
  const auto send = part_->find_send(number);
  if (!send)
    throw invalid_argument("the backward pass needs the gradients of message " +
                           std::to_string(number) + " of " + node_.self().name +
                           ", which was not recorded there");
  return to.add({send, {}}, reached);
}

void pass_runner::walk(const std::vector<at::Tensor>& roots, steps& caused) {
  if (!walked_) walked_.emplace();
  std::vector<std::shared_ptr<recv_rpc_backward>> found;
  add_roots(*walked_, roots, collect(found));
  request_marks_of(found, caused);
}

void pass_runner::walk(const std::vector<std::uint64_t>& numbers, steps& caused) {
  if (!walked_) walked_.emplace();
  std::vector<std::shared_ptr<recv_rpc_backward>> found;
  for (const auto number : numbers)
    if (marked_.insert(number).second) add_send(*walked_, number, collect(found));
  request_marks_of(found, caused);
}

void pass_runner::request_marks_of(const std::vector<std::shared_ptr<recv_rpc_backward>>& found,
                                   steps& caused) {
  std::map<std::uint32_t, mark_sends> requests;
  for (const auto& one : found) {
    auto& request = requests[one->from().id];
    request.pass = what_;
    request.numbers.push_back(one->number());
  }
  for (auto& [rank, request] : requests)
    caused.push_back(request_marks(node_, rank, std::move(request)));
}

// ---- Running

// Begins as if the roots depended on every message that has been recorded by now.
void pass_runner::complete_plan() {
  if (std::exchange(planned_, true)) return;
  for (const auto& [number, send] : part_->sends())
    if (!knows_walk_ || marked_.contains(number)) sends_.emplace(number, plan_.add({send, {}}));
}

// From now on nothing waits for gradients that will not come.
void pass_runner::leave_out_unmarked() {
  if (std::exchange(knows_walk_, true) || !executor_) return;
  std::vector<std::size_t> out;
  for (const auto number : awaited())
    if (!marked_.contains(number)) out.push_back(sends_.at(number));
  executor_->leave_out(out);
}

void pass_runner::run(const std::vector<at::Tensor>& roots,
                      const std::vector<at::Tensor>& gradients, steps& caused) {
  // Every other arrival of the pass follows from this one.
  if (planned_) throw internal_error("gradients have come before the roots' of a backward pass");
  add_roots(plan_, roots, {});
  complete_plan();
  std::vector<std::vector<at::Tensor>> first;
  for (std::size_t i = 0; i < roots.size(); ++i)
    first.push_back({gradients.empty() ? at::ones_like(roots[i]) : gradients[i]});
  ++arrivals_;
  arrive(0, std::move(first), caused);
}

namespace {

// Tensors of several devices may have been sent to one device of the receiver. A device map leads
// back from there to one of them only.
void move_to_tensors(const send_rpc_backward& sent, std::vector<at::Tensor>& gradients,
                     bool recorded) {
  const at::AutoGradMode records(recorded);
  for (std::size_t i = 0; i < gradients.size() && i < sent.num_inputs(); ++i) {
    const auto& wanted = sent.input_metadata(i);
    auto& one = gradients[i];
    if (one.defined() && one.device() != wanted.device() && wanted.is_same_shape(one))
      one = one.to(wanted.device());
  }
}

}  // namespace

void pass_runner::run(gradients_arrive&& what, steps& caused) {
  if (what.walked) leave_out_unmarked();
  complete_plan();
  const auto place = sends_.find(what.number);
  if (place == sends_.end())
    throw invalid_argument("gradients of message " + std::to_string(what.number) + " of " +
                           node_.self().name +
                           " have come, which the backward pass has not asked for");
  ++arrivals_;
  // They have been handed to the default streams. A program's thread may serve this on others.
  for (const auto& one : what.gradients) troupe::detail::take_from_default(one);
  if (const auto node = part_->find_send(what.number))
    move_to_tensors(*node, what.gradients, what_.create_graph);
  std::vector<std::vector<at::Tensor>> all;
  all.push_back(std::move(what.gradients));
  arrive(place->second, std::move(all), caused);
}

void pass_runner::resume(steps& caused) {
  // Gradients of a node that resumed earlier may have come first, with `walked`: then all is done.
  if (!executor_) return;
  ++arrivals_;
  leave_out_unmarked();
  run_executor(caused);
}

// A graph whose gradients are all here, and which leads to no other node, runs in libtorch's engine
// at once; every other one in an executor, step by step.
void pass_runner::arrive(std::size_t first, std::vector<std::vector<at::Tensor>>&& gradients,
                         steps& caused) {
  const backward_options how{what_.keep_graph, what_.create_graph};
  const auto to_leaf = [part = part_, into_grad = what_.into_grad](const at::Tensor& leaf,
                                                                   at::Tensor gradient) {
    if (into_grad)
      add_to_grad(leaf, std::move(gradient));
    else
      part->add_gradient(leaf, std::move(gradient));
  };
  if (!executor_ && plan_.ends().empty() && gradients.size() == plan_.entries().size()) {
    const troupe::detail::call_context_scope now(works_for());
    run_in_engine(plan_, std::move(gradients), how, to_leaf);
    done_ = true;
    return;
  }
  if (!executor_)  // of_caller: no thread of the node has settings that are meant for this pass
    executor_ =
        std::make_unique<executor>(std::move(plan_), how, to_leaf, executor::settings::of_caller);
  const troupe::detail::call_context_scope now(works_for());
  for (auto& one : gradients) executor_->arrive(first++, std::move(one));
  run_executor(caused);
}

void pass_runner::run_executor(steps& caused) {
  const troupe::detail::call_context_scope now(works_for());
  const scope sink(*this);
  caused_ = &caused;
  done_ = executor_->run();
}

void pass_runner::take(const recv_rpc_backward& of, std::vector<at::Tensor>&& gradients) {
  caused_->push_back(
      send_gradients(node_, of, {what_, 0, of.number(), knows_walk_, std::move(gradients)}));
}

pass_standing pass_runner::standing() const {
  pass_standing out{node_.self().id, arrivals_, {}, false};
  if (done_ || !executor_) return out;
  out.blocked = executor_->blocked();
  out.awaited = awaited();
  return out;
}

std::vector<std::uint64_t> pass_runner::awaited() const {
  std::vector<std::uint64_t> out;
  const auto entries = executor_->awaited();
  const std::unordered_set<std::size_t> missing(entries.begin(), entries.end());
  for (const auto& [number, entry] : sends_)
    if (missing.contains(entry)) out.push_back(number);
  return out;
}

}  // namespace troupe::autograd::detail
