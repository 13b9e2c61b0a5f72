#include "troupe/autograd/context.hpp"

#include <fmt/format.h>

#include "troupe/actors/scheduler/opened_context.hpp"
#include "troupe/autograd/context/context_table.hpp"

namespace troupe::autograd {

namespace {

detail::context_table& table_of(const node& here) { return detail::context_table::of(here.core()); }

// The same call as before, in the context of `what`.
void enter(call_context what) noexcept {
  what.call = current_active_call();
  troupe::detail::set_current_call_context(std::move(what));
}

}  // namespace

std::uint64_t current_context() noexcept { return troupe::detail::current_context(); }

within::within(std::uint64_t context) noexcept : before_(current_call_context()) {
  call_context now;
  now.context = context;
  now.apart = context == 0;
  enter(std::move(now));
}
within::~within() { enter(before_); }

context::context(const node& here, const context_options& how)
    : here_(here),
      part_(table_of(here).open()),
      scope_(std::make_shared<troupe::detail::opened_context>(part_->id(), current_call_context())) {
  call_context now;
  now.context = id();
  now.opened = scope_;
  enter(std::move(now));
  if (how.timeout.count() <= 0) return;
  limit_ = deadline_after(how.timeout);
  alarm_ = here.core().wake_at(limit_);
  // Not held by what it runs.
  const std::weak_ptr alarm = alarm_->shared();
  alarm_->state().when_ready(troupe::detail::make_continuation(
      [table = &table_of(here), alarm, id = part_->id(), limit = how.timeout] {
        const auto state = alarm.lock();
        if (!state || state->failure()) return;  // the node has ended
        table->end(id, fmt::format("its limit of {} ms has passed", limit.count()));
      }));
}

context::~context() {
  scope_->end();
  (void)current_context();  // which the thread lets go of now, if it is this one
  if (!here_.core().is_open()) return;
  if (alarm_) here_.core().forget(*alarm_, limit_);
  table_of(here_).end(id(), "its scope has ended");
}

void context::backward(const std::vector<at::Tensor>& roots, const pass_options& how) const {
  const within none(0);
  detail::run_pass(here_, table_of(here_).find(id()), roots, how);
}

future<void> context::backward_async(const std::vector<at::Tensor>& roots,
                                     const pass_options& how) const {
  const within none(0);
  return detail::run_pass_aside(here_, table_of(here_).find(id()), roots, how);
}

// Also where it is over.
gradients context::get_gradients() const {
  forked::check();
  return part_->all_gradients();
}

recorded_graph context::recorded() const { return detail::recorded_by(*part_); }

void backward(const node& here, std::uint64_t context, const std::vector<at::Tensor>& roots,
              const pass_options& how) {
  const within none(0);
  detail::run_pass(here, table_of(here).find(context), roots, how);
}

future<void> backward_async(const node& here, std::uint64_t context,
                            const std::vector<at::Tensor>& roots, const pass_options& how) {
  const within none(0);
  return detail::run_pass_aside(here, table_of(here).find(context), roots, how);
}

namespace {

task<void> backward_here(rref<at::Tensor> root, std::uint64_t context, pass_options how) {
  const auto scalar = root.local_value();
  auto pass = backward_async(this_node(), context, {scalar}, how);
  co_await pass;
}

}  // namespace

void backward_on_owner(const rref<at::Tensor>& root, const context& of, const pass_options& how) {
  const within none(0);
  of.owner().rpc_sync<&backward_here>(root.owner(), root, of.id(), how,
                                      timeout(std::chrono::milliseconds(0)));
}

namespace {

void backward_by_id(const rref<at::Tensor>& root, std::uint64_t context, const pass_options& how) {
  const within none(0);
  (void)root.owner();  // throws for one that refers to nothing
  const node here(root.core()->actors().rrefs().node());
  here.rpc_sync<&backward_here>(root.owner(), root, context, how,
                                timeout(std::chrono::milliseconds(0)));
}

}  // namespace

gradients get_gradients(const node& here, std::uint64_t context) {
  return table_of(here).find(context)->all_gradients();
}

recorded_graph recorded(const node& here, std::uint64_t context) {
  return detail::recorded_by(*table_of(here).find(context));
}

}  // namespace troupe::autograd

namespace troupe {

void backward_on_owner(const rref<at::Tensor>& root, std::uint64_t context,
                       const autograd::pass_options& how) {
  autograd::backward_by_id(root, context, how);
}

}  // namespace troupe
