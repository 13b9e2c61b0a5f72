#include "troupe/autograd/pass/pass_runner.hpp"

#include <ATen/ops/ones_like.h>

#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/local/engine_run.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"

namespace troupe::autograd::detail {

pass_part::pass_part(node_core& node, std::shared_ptr<participant> part, const pass_info& what)
    : node_(node), part_(std::move(part)), what_(what) {
  context_table::of(node_).pass_begins();
}

pass_part::~pass_part() { context_table::of(node_).pass_ends(); }

// ---- Planning

namespace {

void add_roots(backward_plan& to, const std::vector<at::Tensor>& roots,
               const backward_plan::visitor& reached) {
  for (const auto& root : roots)
    to.add({root.grad_fn(), {static_cast<std::uint32_t>(root.output_nr())}}, reached);
}

}  // namespace

std::size_t pass_part::add_send(backward_plan& to, std::uint64_t number,
                                const backward_plan::visitor& reached) const {
  const auto send = part_->find_send(number);
  if (!send)
    throw invalid_argument("the backward pass wants the gradients of message " +
                           std::to_string(number) + " of " + node_.self().name +
                           ", which was not recorded there");
  return to.add({send, {}}, reached);
}

void pass_part::walk(const std::vector<at::Tensor>& roots, steps& caused) {
  if (!walked_) walked_.emplace();
  std::vector<std::shared_ptr<receive_node>> found;
  add_roots(*walked_, roots, collect(found));
  ask(found, caused);
}

void pass_part::walk(const std::vector<std::uint64_t>& numbers, steps& caused) {
  if (!walked_) walked_.emplace();
  std::vector<std::shared_ptr<receive_node>> found;
  for (const auto number : numbers)
    if (marked_.insert(number).second) add_send(*walked_, number, collect(found));
  ask(found, caused);
}

void pass_part::ask(const std::vector<std::shared_ptr<receive_node>>& found, steps& caused) {
  std::map<std::uint32_t, mark_sends> questions;
  for (const auto& one : found) {
    auto& question = questions[one->from().id];
    question.pass = what_;
    question.numbers.push_back(one->number());
  }
  for (auto& [rank, question] : questions)
    caused.push_back(ask_for_marks(node_, rank, std::move(question)));
}

// ---- Running

// All messages take part that there are by now, as far as is known.
void pass_part::complete_plan() {
  if (std::exchange(planned_, true)) return;
  for (const auto& [number, send] : part_->sends())
    if (!knows_walk_ || marked_.contains(number)) sends_.emplace(number, plan_.add({send, {}}));
}

// They wait for nothing that will not come, from now on.
void pass_part::leave_out_unmarked() {
  if (std::exchange(knows_walk_, true) || !executor_) return;
  std::vector<std::size_t> out;
  for (const auto number : awaited())
    if (!marked_.contains(number)) out.push_back(sends_.at(number));
  executor_->leave_out(out);
}

void pass_part::run(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    steps& caused) {
  // A call of this node to itself may have been quicker.
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

// Tensors of several devices may have been sent to one, from where no map leads back to all of
// them.
void put_beside_tensors(const send_node& sent, std::vector<at::Tensor>& gradients, bool recorded) {
  const at::AutoGradMode records(recorded);
  for (std::size_t i = 0; i < gradients.size() && i < sent.num_inputs(); ++i) {
    const auto& wanted = sent.input_metadata(i);
    auto& one = gradients[i];
    if (one.defined() && one.device() != wanted.device() && wanted.is_same_shape(one))
      one = one.to(wanted.device());
  }
}

}  // namespace

void pass_part::run(gradients_arrive&& what, steps& caused) {
  if (what.walked) leave_out_unmarked();
  complete_plan();
  const auto place = sends_.find(what.number);
  if (place == sends_.end())
    throw invalid_argument("gradients of message " + std::to_string(what.number) + " of " +
                           node_.self().name +
                           " have come, which the backward pass has not asked for");
  ++arrivals_;
  if (const auto node = part_->find_send(what.number))
    put_beside_tensors(*node, what.gradients, what_.create_graph);
  std::vector<std::vector<at::Tensor>> all;
  all.push_back(std::move(what.gradients));
  arrive(place->second, std::move(all), caused);
}

void pass_part::resume(steps& caused) {
  if (!executor_) return;  // gradients of one that went on have been quicker: it is done
  ++arrivals_;
  leave_out_unmarked();
  run_executor(caused);
}

// What waits for nobody runs in libtorch's engine, all else step by step.
void pass_part::arrive(std::size_t first, std::vector<std::vector<at::Tensor>>&& gradients,
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
  if (!executor_)  // no thread here has settings for the gradients of others
    executor_ =
        std::make_unique<executor>(std::move(plan_), how, to_leaf, executor::settings::of_caller);
  const troupe::detail::call_context_scope now(works_for());
  for (auto& one : gradients) executor_->arrive(first++, std::move(one));
  run_executor(caused);
}

void pass_part::run_executor(steps& caused) {
  const troupe::detail::call_context_scope now(works_for());
  const scope taker(*this);
  caused_ = &caused;
  done_ = executor_->run();
}

void pass_part::take(const receive_node& of, std::vector<at::Tensor>&& gradients) {
  caused_->push_back(
      send_gradients(node_, of, {what_, 0, of.number(), knows_walk_, std::move(gradients)}));
}

pass_standing pass_part::standing() const {
  pass_standing out{node_.self().id, arrivals_, {}, false};
  if (done_ || !executor_) return out;
  out.blocked = executor_->blocked();
  out.awaited = awaited();
  return out;
}

std::vector<std::uint64_t> pass_part::awaited() const {
  std::vector<std::uint64_t> out;
  const auto entries = executor_->awaited();
  const std::unordered_set<std::size_t> missing(entries.begin(), entries.end());
  for (const auto& [number, entry] : sends_)
    if (missing.contains(entry)) out.push_back(number);
  return out;
}

}  // namespace troupe::autograd::detail
