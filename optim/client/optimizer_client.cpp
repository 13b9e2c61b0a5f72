#include "troupe/optim/client/optimizer_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <unordered_set>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/optim/client/shard_requests.hpp"
#include "troupe/optim/shard/closure_evaluator.hpp"
#include "troupe/optim/shard/shard.hpp"

namespace troupe::detail {

namespace {

// Has a shard begun the step that has failed so? It takes the rates before anything else.
bool has_begun(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    const auto code = e.fault().code;
    return code == errc::unknown_context || code == errc::invalid_argument ||
           code == errc::remote_error;
  } catch (...) {
    return false;
  }
}

// What this node says of a context in which it does not take part.
std::exception_ptr failure_of_lookup(const std::weak_ptr<node_core>& weak, std::uint64_t context) {
  const auto here = weak.lock();
  if (!here) return nullptr;
  try {
    (void)autograd::get_gradients(node(here), context);
    return nullptr;
  } catch (const error&) {
    return std::current_exception();
  }
}

// A step of this node's shard, with the outcome that a request to its actor would have.
future<std::uint64_t> step_here(shard& local, const take_step& how, node_core& here) {
  const c10::impl::ExcludeDispatchKeyGuard as_it_is(c10::autocast_dispatch_keyset);
  auto done = std::make_shared<future_state<std::uint64_t>>(here.driver());
  try {
    done->set_value(local.step(how));
  } catch (...) {
    done->set_exception(to_exception(
        describe(std::current_exception(), here.self().name, std::string(type_name<take_step>()))));
  }
  return future<std::uint64_t>(std::move(done));
}

}  // namespace

optimizer_client::optimizer_client(const optimizer_kind& kind,
                                   const std::vector<std::vector<rref<at::Tensor>>>& groups,
                                   const std::vector<archive_values>& options,
                                   const archive_values& defaults, const optimizer_settings& how,
                                   const shard_maker& make)
    : kind_(&kind), groups_(options) {
  std::vector<shard_plan> plans;
  std::vector<destination> owners;
  std::unordered_set<rref_id> seen;
  std::optional<node> here;
  for (std::uint32_t group = 0; group < groups.size(); ++group)
    for (const auto& parameter : groups[group]) {
      const std::uint64_t index = group_of_.size();
      if (!parameter)
        throw invalid_argument(fmt::format("parameter {} is an rref to nothing", index));
      if (!seen.insert(parameter.id()).second)
        throw invalid_argument(
            fmt::format("parameter {} on {} is in the list twice", index, parameter.owner_name()));
      if (!here) here = node_of(parameter.core()->table().agent());
      const auto& owner = parameter.owner();
      std::size_t i = 0;
      while (i < shards_.size() && shards_[i].node != owner.name) ++i;
      if (i == shards_.size()) {
        shards_.push_back({{}, owner.name, {}});
        plans.push_back({{}, defaults, options, how});
        owners.emplace_back(owner);
      }
      shards_[i].parameters.push_back(index);
      plans[i].parameters.push_back({index, group, parameter});
      group_of_.push_back(group);
    }
  if (shards_.empty()) throw invalid_argument("optimizer got an empty parameter list");
  if (kind.needs_closure && shards_.size() > 1)
    throw invalid_argument(
        fmt::format("{} needs all of its parameters on one node, since it looks at them together; "
                    "these are on {}",
                    kind.name, fmt::join(this->owners(), ", ")));
  const autograd::within none(0);
  std::vector<future<shard_actor>> made;
  for (std::size_t i = 0; i < shards_.size(); ++i) made.push_back(make(*here, owners[i], plans[i]));
  wait_for_all(made);
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].actor = made[i].get();
  (void)proxy();  // now, when the shards have these options
}

std::vector<std::string> optimizer_client::owners() const {
  std::vector<std::string> out;
  out.reserve(shards_.size());
  for (const auto& one : shards_) out.push_back(one.node);
  return out;
}

std::shared_ptr<node_core> optimizer_client::here() const {
  if (shards_.empty()) throw invalid_argument("this optimizer has no parameters");
  const auto first = caf::actor_cast<caf::strong_actor_ptr>(shards_.front().actor);
  return node_of(table_of(*actors_of(first)).agent()).core().shared_from_this();
}

// A step that all shards have been asked for.
struct optimizer_client::requested_step {
  std::vector<future<std::uint64_t>> replies;
  learning_rate_sync::delivery rates;
  std::uint64_t context = 0;
  std::size_t parameters = 0;
  std::weak_ptr<node_core> node;

  // Once all have replied: the step's error, or null. Rates that were lost count as lost before
  // anybody gets the error.
  std::exception_ptr finish() {
    auto sent = std::move(rates);
    std::exception_ptr first;
    std::uint64_t stepped = 0;
    bool all_took_rates = true;
    for (const auto& one : replies) {
      const auto& why = one.state().failure();
      if (!why) {
        stepped += one.get();
        continue;
      }
      if (!first) first = why;
      all_took_rates = all_took_rates && has_begun(why);
    }
    if (all_took_rates) sent.arrived();
    if (first) return first;
    if (stepped > 0) return nullptr;
    if (auto why = failure_of_lookup(node, context)) return why;
    return std::make_exception_ptr(invalid_argument(
        fmt::format("none of the optimizer's {} parameters has a gradient in the context: has its "
                    "backward pass been run?",
                    parameters)));
  }
};

optimizer_client::requested_step optimizer_client::request_step(
    std::uint64_t context, const std::shared_ptr<shard>& local) const {
  if (kind_->needs_closure)
    throw invalid_argument(fmt::format(
        "{} evaluates the loss itself: step takes a closure, not a context", kind_->name));
  const auto core = here();
  requested_step out{{}, next_rates(*core), context, group_of_.size(), core};
  take_step how;
  how.context = context;
  how.rates = out.rates.rates();
  out.replies = request_all(shards_, core->self().name, how, [&](const shard_handle& one) {
    return local ? step_here(*local, how, *core) : request_one(one.actor, how);
  });
  return out;
}

// The actor is asked once only: another thread has to run it, and to wake one takes as long as a
// whole step of small parameters.
std::shared_ptr<shard> optimizer_client::local_shard() const {
  // A step here would make inference tensors.
  if (c10::InferenceMode::is_enabled()) return nullptr;
  forked::check();  // in a child, a request that another thread has begun would never end
  // No std::call_once: the request may throw, and is then made again by the next step.
  if (!local_->requested.load(std::memory_order_acquire)) {
    const std::lock_guard lock(local_->mutex);
    if (!local_->requested.load(std::memory_order_relaxed)) {
      const autograd::within none(0);
      const auto me = here()->self().name;
      for (const auto& one : shards_)
        if (one.node == me) local_->found = request(one.actor, get_shard()).get().here;
      local_->requested.store(true, std::memory_order_release);  // after `found`
    }
  }
  return local_->found.lock();
}

// Hot path.
void optimizer_client::step(std::uint64_t context) const {
  auto requested = request_step(context, local_shard());
  for (const auto& one : requested.replies) one.wait();
  if (const auto why = requested.finish()) std::rethrow_exception(why);
}

future<void> optimizer_client::step_async(std::uint64_t context) const {
  const auto requested = std::make_shared<requested_step>(request_step(context, nullptr));
  auto out = std::make_shared<future_state<void>>(here()->driver());
  when_all_ready(cores_of(requested->replies), [requested, out] {
    if (const auto why = requested->finish())
      out->set_exception(why);
    else
      out->set_value();
  });
  return future<void>(out);
}

at::Tensor optimizer_client::step_with(const closure& evaluate) const {
  if (kind_->needs_closure) return step_evaluating(evaluate);
  const node here(this->here());
  const autograd::context once(here);
  auto loss = evaluate(once).detach();
  step(once);
  return loss;
}

at::Tensor optimizer_client::step_evaluating(const closure& evaluate) const {
  const auto core = here();
  const node here(core);
  auto rates = next_rates(*core);
  const auto evaluator = here.make_rref(std::in_place_type<closure_evaluator>, core->driver());
  auto& requests = evaluator.local_value();
  take_closure_step how;
  how.evaluator = evaluator;
  how.rates = rates.rates();
  const auto done = [&] {
    const autograd::within none(0);
    return request_one(shards_.front().actor, how);
  }();
  done.state().when_ready(make_continuation([evaluator] { evaluator.local_value().close(); }));
  std::exception_ptr thrown;
  std::optional<autograd::context> open;  // until the shard has read its gradients
  while (requests.wait_for_request()) {
    open.reset();
    try {
      open.emplace(here);
      evaluated_loss there;
      there.context = open->id();
      there.loss = evaluate(*open).detach();
      requests.reply(there);
    } catch (...) {
      thrown = std::current_exception();
      requests.fail(thrown);
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  auto loss = done.get();
  rates.arrived();
  return loss;
}

namespace {

auto ids_of(node_core& here) {
  return [core = &here] { return core->agent().random(); };
}

}  // namespace

learning_rate_sync::delivery optimizer_client::next_rates(node_core& here) const {
  return rates_->next_delivery(ids_of(here));
}

void optimizer_client::send(learning_rate_sync::delivery rates) const {
  if (rates.rates().changed.empty()) return;
  set_rates what;
  what.rates = rates.rates();
  wait_for_all(request_all(shards_, here()->self().name, what));
  rates.arrived();
}

void optimizer_client::set_rate(std::optional<std::size_t> group, double rate) const {
  const auto core = here();
  (void)proxy();
  send(rates_->set(group, rate, ids_of(*core)));
}

void optimizer_client::set_lr(double rate) const { set_rate(std::nullopt, rate); }

void optimizer_client::set_lr(std::size_t group, double rate) const { set_rate(group, rate); }

double optimizer_client::lr(std::size_t group) const {
  (void)proxy();
  return rates_->rate_of(group);
}

}  // namespace troupe::detail
