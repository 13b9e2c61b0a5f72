#include "troupe/optim/shard/shard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <unordered_set>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/optim/shard/closure_evaluator.hpp"
#include "troupe/optim/shard/storage_lock.hpp"

namespace troupe::detail {

namespace {

std::string shape(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

}  // namespace

shard::shard(node_core& here, const optimizer_kind& kind, const shard_plan& plan)
    : here_(here), kind_(kind), how_(plan.how) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& [index, group, parameter] : plan.parameters) {
    indexes_.push_back(index);
    group_of_.push_back(group);
    if (group >= plan.groups.size())
      throw invalid_argument(fmt::format("{} is in group {} of {}", named(indexes_.size() - 1),
                                         group, plan.groups.size()));
    if (!parameter.is_owner())
      throw invalid_argument(fmt::format("{} cannot be stepped there: its owner is {}",
                                         named(indexes_.size() - 1), parameter.owner_name()));
    const auto& tensor = parameter.local_value();
    if (!tensor.defined() || !tensor.is_leaf())
      throw invalid_argument(fmt::format("{} cannot be optimized: it is {}",
                                         named(indexes_.size() - 1),
                                         tensor.defined() ? "no leaf" : "undefined"));
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second)
      throw invalid_argument(fmt::format("{} is in the list twice", named(indexes_.size() - 1)));
    parameters_.push_back(tensor);
  }
  for (const auto& one : plan.groups) options_.push_back(options_from(kind_, one));
  defaults_ = options_from(kind_, plan.defaults);
  stepped_.resize(parameters_.size());
  set_by_.resize(options_.size());
  main_ = make_replica();
}

std::unique_ptr<parameter_replica_optimizer> shard::make_replica() const {
  return std::make_unique<parameter_replica_optimizer>(kind_, parameters_, group_of_, options_,
                                                       *defaults_);
}

std::string shard::named(std::size_t i) const {
  return fmt::format("parameter {} on {}", indexes_[i], here_.self().name);
}

// Hot path: with small parameters, a step takes no longer than the round trip of a message.
std::size_t shard::step(const take_step& how) {
  set_learning_rates(how.rates);
  const auto found = gradients_if_reached(how.context);
  if (!found && how_.needs_all_gradients)
    throw invalid_argument(
        fmt::format("no parameter on {} has a gradient: the context has not reached that node",
                    here_.self().name));
  if (!found || found->count == 0) return 0;
  if (steps_concurrently()) {
    step_concurrently(found->all);
    return found->count;
  }
  const storage_lock storages(parameters_, found->all, storage_lock::mode::write);
  const std::lock_guard lock(mutex_);
  count_versions_up(found->all);
  main_->step(parameters_, found->all);
  return found->count;
}

at::Tensor shard::step(const take_closure_step& how) {
  set_learning_rates(how.rates);
  const autograd::within none(0);
  // The optimizer calls the closure before it writes, so that nothing needs a copy yet: snapshots
  // that exist now may be gone by then.
  std::optional<storage_lock> storages(std::in_place, parameters_,
                                       storage_lock::mode::exclude_writers);
  const auto lock_to_write = [&] { storages.emplace(parameters_, storage_lock::mode::write); };
  return main_->step(parameters_, [&](std::vector<at::Tensor>& gradients) {
    storages.reset();  // the closure reads the parameters
    evaluated_loss there;
    try {
      there =
          how.evaluator.rpc_sync<&closure_evaluator::evaluate>(timeout(std::chrono::seconds(0)));
      gradients = gradients_of_closure(there.context);
    } catch (...) {
      lock_to_write();  // the optimizer may restore what it has tried
      throw;
    }
    lock_to_write();
    count_versions_up(gradients);
    return there.loss;
  });
}

std::vector<at::Tensor> shard::gradients_of_closure(std::uint64_t context) const {
  try {
    auto found = gradients_of(context);
    if (found.count > 0) return std::move(found.all);
  } catch (const unknown_context&) {  // it has not reached this node
  }
  throw invalid_argument(
      "the closure has left no gradient in its context: has it run a backward pass?");
}

// A context that goes on, and has not reached this node, has no gradients here.
std::optional<shard::gradients> shard::gradients_if_reached(std::uint64_t context) const {
  try {
    return gradients_of(context);
  } catch (const unknown_context&) {
    if (autograd::detail::context_table::of(here_).has_ended(context)) throw;
    return std::nullopt;
  }
}

shard::gradients shard::gradients_of(std::uint64_t context) const {
  const auto all = autograd::get_gradients(node(here_.shared_from_this()), context);
  gradients out;
  out.all.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    out.all.push_back(all[parameters_[i]]);
    if (out.all.back().defined()) {
      check(i, out.all.back());
      ++out.count;
    } else if (how_.needs_all_gradients) {
      throw invalid_argument(named(i) + " has no gradient in the context");
    }
  }
  return out;
}

void shard::check(std::size_t i, const at::Tensor& gradient) const {
  const auto& parameter = parameters_[i];
  if (gradient.sizes() != parameter.sizes())
    throw invalid_argument(fmt::format("the gradient of {} has the shape {}, but the parameter {}",
                                       named(i), shape(gradient.sizes()),
                                       shape(parameter.sizes())));
  if (gradient.device() != parameter.device() || gradient.dtype() != parameter.dtype())
    throw invalid_argument(
        fmt::format("the gradient of {} is {} on {}, but the parameter {} on {}", named(i),
                    std::string(gradient.dtype().name()), gradient.device().str(),
                    std::string(parameter.dtype().name()), parameter.device().str()));
}

// So that backward passes that have saved what is about to change throw.
void shard::count_versions_up(const std::vector<at::Tensor>& gradients) const {
  if (how_.mode != step_mode::consistent) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (gradients[i].defined()) parameters_[i].unsafeGetTensorImpl()->bump_version();
}

void shard::step_concurrently(const std::vector<at::Tensor>& gradients) {
  auto mine = take_replica();
  // A parameter's first step makes the tensors of its state, which later steps share.
  const storage_lock storages(
      parameters_, gradients,
      makes_state(gradients) ? storage_lock::mode::write : storage_lock::mode::write_concurrently);
  {
    const std::lock_guard lock(mutex_);
    mine->copy_settings_and_states(*main_, gradients);
  }
  mine->step(parameters_, gradients);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    stepped_[i] = true;
    const auto* state = mine->state(i);
    main_->set_state(i, state ? state->clone() : nullptr);
  }
  idle_replicas_.push_back(std::move(mine));
}

bool shard::makes_state(const std::vector<at::Tensor>& gradients) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && !stepped_[i]) return true;
  return false;
}

std::unique_ptr<parameter_replica_optimizer> shard::take_replica() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_replicas_.empty()) {
      auto out = std::move(idle_replicas_.back());
      idle_replicas_.pop_back();
      return out;
    }
  }
  return make_replica();
}

void shard::set_learning_rates(const learning_rates& what) {
  if (what.changed.empty()) return;
  const std::lock_guard lock(mutex_);
  auto& groups = main_->optimizer().param_groups();
  for (const auto& one : what.changed)
    if (one.group >= groups.size())
      throw invalid_argument(
          fmt::format("a learning rate for group {} of {}", one.group, groups.size()));
  for (const auto& one : what.changed) {
    // Requests of two threads may overtake one another.
    auto& last = set_by_[one.group];
    if (last.from == what.from && last.number > what.number) continue;
    last = {what.from, what.number};
    groups[one.group].options().set_lr(one.rate);
  }
}

shard_state shard::state() const {
  // Concurrent steps write the states' tensors under their storage locks alone.
  const storage_lock storages(parameters_, storage_lock::mode::exclude_writers);
  const std::lock_guard lock(mutex_);
  shard_state out;
  for (const auto& group : main_->optimizer().param_groups())
    out.groups.push_back(values_of(group.options()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto* state = main_->state(i);
    out.parameters.push_back({indexes_[i], parameters_[i].sizes().vec(),
                              std::string(parameters_[i].dtype().name()),
                              state ? std::optional(values_of(*state)) : std::nullopt});
  }
  return out;
}

void shard::put(const shard_state& state) {
  // Concurrent steps would put back the states that they began with.
  const storage_lock storages(parameters_, storage_lock::mode::exclude_writers);
  const std::lock_guard lock(mutex_);
  auto& groups = main_->optimizer().param_groups();
  if (state.groups.size() != groups.size() || state.parameters.size() != parameters_.size())
    throw invalid_argument(
        fmt::format("the state of {} parameters in {} groups for {} has {} parameters in {} groups",
                    parameters_.size(), groups.size(), here_.self().name, state.parameters.size(),
                    state.groups.size()));
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  options.reserve(state.groups.size());
  for (const auto& one : state.groups) options.push_back(options_from(kind_, one));
  std::vector<std::unique_ptr<torch::optim::OptimizerParamState>> states;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& one = state.parameters[i];
    const auto& parameter = parameters_[i];
    if (one.index != indexes_[i] || parameter.sizes() != at::IntArrayRef(one.shape) ||
        parameter.dtype().name() != one.dtype)
      throw invalid_argument(fmt::format(
          "{} is {} of the shape {}, but its saved state is of parameter {}, {} of the shape {}",
          named(i), std::string(parameter.dtype().name()), shape(parameter.sizes()), one.index,
          one.dtype, shape(one.shape)));
    states.push_back(one.state ? state_from(kind_, *one.state, parameter.device()) : nullptr);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].set_options(std::move(options[i]));
  for (std::size_t i = 0; i < states.size(); ++i) {
    stepped_[i] = states[i] != nullptr;
    main_->set_state(i, std::move(states[i]));
  }
}

}  // namespace troupe::detail
