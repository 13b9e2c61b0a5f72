#include "troupe/autograd/context.hpp"

#include <fmt/format.h>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/scheduler/opened_context.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/pass/distributed_pass.hpp"
#include "troupe/autograd/pass/pass_worker_pool.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe::autograd {

namespace {

detail::context_table& table_of(const node& here) { return detail::context_table::of(here.core()); }

// The thread goes on to serve the same call, in the context of `what`.
void enter(call_context what) noexcept {
  what.call = current_active_call();
  troupe::detail::set_current_call_context(std::move(what));
}

std::unique_ptr<troupe::detail::context_interceptor> make_table(node_core& node) {
  return std::make_unique<detail::context_table>(node,
                                                 std::make_unique<detail::pass_worker_pool>(node));
}

}  // namespace

const bool detail::provided = troupe::detail::provide_interceptor(&make_table);

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
      id_(part_->id()),
      scope_(std::make_shared<troupe::detail::opened_context>(id_, current_call_context())) {
  call_context now;
  now.context = id();
  now.opened = scope_;
  enter(std::move(now));
  if (how.timeout.count() <= 0) return;
  limit_ = deadline_after(how.timeout);
  alarm_ = here.core().agent().wake_at(limit_);
  // Weak: the state of the alarm holds this continuation.
  const std::weak_ptr alarm = alarm_->shared();
  alarm_->state().when_ready(troupe::detail::make_continuation(
      [table = &table_of(here), alarm, id = id_, limit = how.timeout] {
        const auto state = alarm.lock();
        if (!state || state->failure()) return;  // the node has ended
        table->end(id, fmt::format("its limit of {} ms has passed", limit.count()));
      }));
}

context::~context() {
  scope_->end();
  (void)current_context();  // has this thread drop the scope, if it is the one that opened it
  if (forked::from_nodes()) return;  // in a child process the locks may be held for ever
  if (alarm_) here_.core().agent().forget(*alarm_, limit_);
  // Of a job that has ended too: what the context has recorded is released here.
  table_of(here_).end(id(), "its scope has ended");
}

void context::backward(const std::vector<at::Tensor>& roots, const pass_options& how) const {
  const within none(0);
  detail::run_pass(here_, table_of(here_).find(id()), roots, how);
}

future<void> context::backward_async(const std::vector<at::Tensor>& roots,
                                     const pass_options& how) const {
  const within none(0);
  return detail::run_pass_async(here_, table_of(here_).find(id()), roots, how);
}

// Works after the end as well.
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
  return detail::run_pass_async(here, table_of(here).find(context), roots, how);
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
  const auto here = troupe::detail::node_of(root.core()->table().agent());
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
