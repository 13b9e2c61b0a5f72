#include "autograd/distributed_pass.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "autograd/context_table.hpp"
#include "messages/log.hpp"

namespace troupe::autograd::detail {

namespace {

// ---- What others ask of this node

template <class Message>
future<pass_report> pass_on(std::uint64_t context, Message what) {
  auto& table = context_table::of(*current_node());
  return request(table.actor_of(table.find(context)), std::move(what));
}

future<pass_report> serve_marks(mark_sends what) {
  return pass_on(what.pass.context, std::move(what));
}

future<pass_report> serve_gradients(gradients_arrive what) {
  return pass_on(what.pass.context, std::move(what));
}

void serve_forget(std::uint64_t context, std::uint64_t pass) {
  auto& table = context_table::of(*current_node());
  send(table.actor_of(table.find(context)), forget_pass{pass});
}

void serve_end(std::uint64_t context, std::string why) {
  context_table::of(*current_node()).end(context, why);
}

node as_node(node_core& core) { return node(core.shared_from_this()); }

// For what nobody waits for, and which a lost node need not hear.
template <auto F, class... Args>
void tell(node_core& here, peer& whom, const Args&... args) noexcept {
  const troupe::detail::serving nothing({});
  try {
    if (whom.live()) (void)as_node(here).rpc_async<F>(whom.info, args...);
  } catch (const std::exception& e) {
    log().debug("{} could not tell {}: {}", here.self().name, whom.info.name, e.what());
  }
}

// ---- What a pass wants

void check_roots(const std::vector<at::Tensor>& roots) {
  if (roots.empty()) throw invalid_argument("No tensors provided for gradient computation.");
  for (const auto& root : roots) {
    if (!root.defined() || !root.requires_grad())
      throw invalid_argument(
          "requires_grad not set on root: nothing that requires a gradient leads "
          "to it");
    if (root.numel() != 1)
      throw invalid_argument(fmt::format(
          "a root of {} elements is not a scalar, all roots need to be scalar: sum them, "
          "or take their mean",
          root.numel()));
    if (!root.grad_fn())
      throw invalid_argument("a root does not have a valid gradient function: it is a leaf itself");
  }
}

// In fast mode all messages take part, and those that the roots do not use get no gradients.
void check_complete(const pass_report& report, node_core& here) {
  for (const auto& one : report.all()) {
    if (one.awaited.empty()) continue;
    throw invalid_argument(fmt::format(
        "the backward pass is not complete: {} still awaits the gradients of {} of the context's "
        "messages, since the roots do not depend on them. Gradients of that node are missing. Use "
        "pass_mode::smart, which leaves such messages out",
        here.actors().peers().name_of(one.rank), one.awaited.size()));
  }
}

}  // namespace

future<pass_report> ask_for_marks(node_core& here, std::uint32_t rank, mark_sends what) {
  return as_node(here).rpc_async<&serve_marks>(rank, what, timeout(std::chrono::milliseconds(0)));
}

future<pass_report> send_gradients(node_core& here, peer& to, gradients_arrive what) {
  return as_node(here).rpc_async<&serve_gradients>(to.info, what,
                                                   timeout(std::chrono::milliseconds(0)));
}

void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept {
  tell<&serve_forget>(here, whom, context, pass);
}

void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why) noexcept {
  tell<&serve_end>(here, whom, context, why);
}

task<void> run_pass(node here, std::shared_ptr<participant> part, std::vector<at::Tensor> roots,
                    pass_options how) {
  check_roots(roots);
  auto& core = here.core();
  auto& table = context_table::of(core);
  pass_info pass;
  pass.context = part->id();
  pass.number = table.next_number();
  pass.mode = how.mode;
  pass.create_graph = how.create_graph;
  pass.keep_graph = how.retain_graph || how.create_graph;
  const auto actor = table.actor_of(part);
  std::exception_ptr failure;
  try {
    // Nothing is made within a co_await's expression: g++ 12 destroys such aggregates twice.
    if (how.mode == pass_mode::smart) {
      walk_from_roots first;
      first.pass = pass;
      first.roots = roots;
      const auto walked = request(actor, std::move(first));
      co_await walked;
    }
    run_from_roots second;
    second.pass = pass;
    second.roots = std::move(roots);
    const auto run = request(actor, std::move(second));
    const pass_report report = co_await run;
    check_complete(report, core);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  send(actor, forget_pass{pass.number});
  std::rethrow_exception(failure);
}

}  // namespace troupe::autograd::detail
