#include "troupe/optim/client/optimizer_client.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <unordered_set>

#include "troupe/optim/client/shard_requests.hpp"

namespace troupe::detail {

namespace {

// Has the failure come from a node that does not know the context? Its name.
std::optional<std::string> without_context(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const unknown_context& e) {
    return e.node();
  } catch (...) {
    return std::nullopt;
  }
}

bool takes_part(const std::weak_ptr<node_core>& weak, std::uint64_t context) {
  const auto here = weak.lock();
  if (!here) return false;
  try {
    (void)autograd::get_gradients(node(here), context);
    return true;
  } catch (const error&) {
    return false;
  }
}

// What asking its actor would give.
future<std::uint64_t> step_here(shard& mine, const take_step& how, node_core& here) {
  const c10::impl::ExcludeDispatchKeyGuard as_it_is(c10::autocast_dispatch_keyset);
  auto done = std::make_shared<future_state<std::uint64_t>>(here.driver());
  try {
    done->set_value(mine.step(how));
  } catch (...) {
    done->set_exception(to_exception(
        describe(std::current_exception(), here.self().name, std::string(type_name<take_step>()))));
  }
  return future<std::uint64_t>(std::move(done));
}

}  // namespace

optimizer_front::optimizer_front(const optimizer_kind& kind,
                                 const std::vector<std::vector<rref<at::Tensor>>>& groups,
                                 const std::vector<archive_values>& options,
                                 const archive_values& defaults, const optimizer_settings& how,
                                 const maker& make)
    : kind_(&kind), groups_(options), needs_all_gradients_(how.needs_all_gradients) {
  std::vector<shard_plan> plans;
  std::vector<destination> owners;
  std::unordered_set<rref_id> seen;
  std::shared_ptr<node_core> core;
  for (std::uint32_t group = 0; group < groups.size(); ++group)
    for (const auto& parameter : groups[group]) {
      const std::uint64_t index = group_of_.size();
      if (!parameter)
        throw invalid_argument(fmt::format("parameter {} is an rref to nothing", index));
      if (!seen.insert(parameter.id()).second)
        throw invalid_argument(
            fmt::format("parameter {} on {} is in the list twice", index, parameter.owner_name()));
      if (!core) core = parameter.core()->actors().rrefs().node();
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
  const node here(core);
  std::vector<future<shard_actor>> made;
  for (std::size_t i = 0; i < shards_.size(); ++i) made.push_back(make(here, owners[i], plans[i]));
  wait_for_all(made);
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].actor = made[i].get();
  (void)local();  // what the shards know
}

std::vector<std::string> optimizer_front::owners() const {
  std::vector<std::string> out;
  for (const auto& one : shards_) out.push_back(one.node);
  return out;
}

std::shared_ptr<node_core> optimizer_front::here() const {
  if (shards_.empty()) throw invalid_argument("this optimizer has no parameters");
  const auto first = caf::actor_cast<caf::strong_actor_ptr>(shards_.front().actor);
  return actors_of(first)->rrefs().node();
}

// A step that all shards have been asked for.
struct optimizer_front::asked_step {
  std::vector<future<std::uint64_t>> all;
  std::uint64_t context = 0;
  std::size_t parameters = 0;
  bool needs_all_gradients = false;
  std::weak_ptr<node_core> node;

  // Of what has gone wrong, once all have answered.
  std::exception_ptr failure() const {
    std::exception_ptr first, unknown;
    std::uint64_t stepped = 0;
    for (const auto& one : all) {
      const auto& why = one.state().failure();
      if (!why) {
        stepped += one.get();
        continue;
      }
      auto& place = without_context(why) ? unknown : first;
      if (!place) place = why;
    }
    if (first) return first;
    // A node that has no part in a context which goes on has no gradients in it.
    if (unknown && !takes_part(node, context)) return unknown;
    if (unknown && needs_all_gradients)
      return std::make_exception_ptr(invalid_argument(
          fmt::format("no parameter on {} has a gradient in the context, which has not come there",
                      *without_context(unknown))));
    if (stepped > 0) return nullptr;
    return std::make_exception_ptr(invalid_argument(
        fmt::format("none of the optimizer's {} parameters has a gradient in the context: has its "
                    "backward pass been run?",
                    parameters)));
  }
};

optimizer_front::asked_step optimizer_front::ask_step(std::uint64_t context,
                                                      const std::shared_ptr<shard>& mine) const {
  if (kind_->needs_closure)
    throw invalid_argument(fmt::format(
        "{} evaluates the loss itself: step takes a closure, not a context", kind_->name));
  const auto core = here();
  take_step how;
  how.context = context;
  how.rates = rates_->news();
  auto all = ask_all(shards_, core->self().name, how, [&](const shard_handle& one) {
    return mine ? step_here(*mine, how, *core) : ask_one(one.actor, how);
  });
  return {std::move(all), context, group_of_.size(), needs_all_gradients_, core};
}

// Asked for once. An actor has to be woken by another thread, which takes as long as all of a step
// of small parameters.
std::shared_ptr<shard> optimizer_front::shard_here() const {
  if (c10::InferenceMode::is_enabled()) return nullptr;  // what a step makes would be of it
  forked::check();                                       // where that once may never be over
  std::call_once(mine_->asked, [&] {
    const autograd::within none(0);
    const auto me = here()->self().name;
    for (const auto& one : shards_)
      if (one.node == me) mine_->found = request(one.actor, get_shard()).get().here;
  });
  return mine_->found.lock();
}

// Hot path.
void optimizer_front::step(std::uint64_t context) const {
  const auto asked = ask_step(context, shard_here());
  for (const auto& one : asked.all) one.wait();
  if (const auto why = asked.failure()) std::rethrow_exception(why);
}

future<void> optimizer_front::step_async(std::uint64_t context) const {
  auto asked = ask_step(context, nullptr);
  auto out = std::make_shared<future_state<void>>(here()->driver());
  when_all_ready(cores_of(asked.all), [asked, out] {
    if (const auto why = asked.failure())
      out->set_exception(why);
    else
      out->set_value();
  });
  return future<void>(out);
}

at::Tensor optimizer_front::step_with(const closure& evaluate) const {
  const auto core = here();
  const node here(core);
  if (!kind_->needs_closure) {
    const autograd::context once(here);
    auto loss = evaluate(once).detach();
    step(once);
    return loss;
  }
  const auto desk = here.make_rref(std::in_place_type<closure_desk>, core->driver());
  auto& asked = desk.local_value();
  take_closure_step how;
  how.desk = desk;
  how.rates = rates_->news();
  const auto done = [&] {
    const autograd::within none(0);
    return ask_one(shards_.front().actor, how);
  }();
  done.state().when_ready(make_continuation([desk] { desk.local_value().end(); }));
  std::exception_ptr thrown;
  std::optional<autograd::context> open;  // until the shard has read its gradients
  while (asked.wait()) {
    open.reset();
    try {
      open.emplace(here);
      evaluated_loss there;
      there.context = open->id();
      there.loss = evaluate(*open).detach();
      asked.answer(there);
    } catch (...) {
      thrown = std::current_exception();
      asked.fail(thrown);
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  return done.get();
}

void optimizer_front::tell_rates() const {
  set_rates what;
  what.rates = rates_->news();
  if (!what.rates.empty()) wait_for_all(ask_all(shards_, here()->self().name, what));
}

void optimizer_front::set_lr(double rate) const {
  for (auto& group : local().param_groups()) group.options().set_lr(rate);
  tell_rates();
}

void optimizer_front::set_lr(std::size_t group, double rate) const {
  auto& all = local().param_groups();
  if (group >= all.size())
    throw invalid_argument(fmt::format("no group {}: there are {}", group, all.size()));
  all[group].options().set_lr(rate);
  tell_rates();
}

double optimizer_front::lr(std::size_t group) const {
  const auto& all = local().param_groups();
  if (group >= all.size())
    throw invalid_argument(fmt::format("no group {}: there are {}", group, all.size()));
  return all[group].options().get_lr();
}

}  // namespace troupe::detail
