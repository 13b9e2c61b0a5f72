#include "autograd/distributed_pass.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "actors/lent_thread.hpp"
#include "autograd/context_table.hpp"
#include "autograd/pass_watch.hpp"
#include "messages/error_codec.hpp"
#include "messages/log.hpp"

namespace troupe::autograd::detail {

namespace {

const timeout no_limit{std::chrono::milliseconds(0)};

node as_node(node_core& core) { return node(core.shared_from_this()); }

// Calls `next` with the report of a step, or why it has failed, on the thread that hears of it.
template <class Next>
void when_over(const future<step_report>& step, const Next& next) {
  const auto state = step.shared();
  state->when_ready_at_once(troupe::detail::make_continuation(
      [state, next] { next(state->failure() ? nullptr : &*state->value(), state->failure()); }));
}

// ---- What the starter of a pass hears

std::shared_ptr<pass_watch> watch_of(node_core& here, const pass_info& pass) {
  const auto part = context_table::of(here).look_up(pass.context);
  return part ? part->watch_of(pass.number) : nullptr;
}

void serve_report(pass_info pass, step_report report) {
  if (const auto watch = watch_of(*current_node(), pass)) watch->add(std::move(report));
}

void serve_failure(pass_info pass, caf::error why) {
  if (const auto watch = watch_of(*current_node(), pass))
    watch->fail(to_exception(to_fault(std::move(why))));
}

// Of a step that is over, or has failed. Nobody needs to hear it if the starter is lost.
void tell_starter(node_core& here, const pass_info& pass, step_report* report,
                  const std::exception_ptr& failure) noexcept {
  try {
    const troupe::detail::serving nothing({});
    if (pass.starter == here.self().id) {
      if (const auto watch = watch_of(here, pass))
        failure ? watch->fail(failure) : watch->add(step_report(*report));
    } else if (failure) {
      const auto why = to_caf(describe(failure, here.self().name, {}));
      (void)as_node(here).rpc_async<&serve_failure>(pass.starter, pass, why, no_limit);
    } else {
      (void)as_node(here).rpc_async<&serve_report>(pass.starter, pass, *report, no_limit);
    }
  } catch (const std::exception& e) {
    log().debug("{} could not tell rank {} of a step: {}", here.self().name, pass.starter,
                e.what());
  }
}

// ---- What others ask of this node

// The answer is for the one who asks, and enough if that is the starter.
template <class Message>
future<step_report> serve_step(Message what) {
  auto& here = *current_node();
  auto& table = context_table::of(here);
  const auto pass = what.pass;
  const bool asked_by_starter = current_call().from->rank() == pass.starter;
  auto step =
      troupe::detail::request_here(here, table.actor_of(table.find(pass.context)), std::move(what));
  if (!asked_by_starter)
    when_over(step, [weak = here.weak_from_this(), pass](step_report* report,
                                                         const std::exception_ptr& failure) {
      if (const auto node = weak.lock()) tell_starter(*node, pass, report, failure);
    });
  return step;
}

future<step_report> serve_marks(mark_sends what) { return serve_step(std::move(what)); }
future<step_report> serve_resume(resume what) { return serve_step(std::move(what)); }
future<step_report> serve_gradients(gradients_arrive what) { return serve_step(std::move(what)); }

// Begins a step on another node. If that fails the starter hears of it from here.
template <auto F, class Message>
void begin_step(node_core& here, const destination& to, const Message& what) {
  const auto pass = what.pass;
  when_over(
      as_node(here).rpc_async<F>(to, what, no_limit),
      [weak = here.weak_from_this(), pass](step_report* report, const std::exception_ptr& failure) {
        const auto node = weak.lock();
        if (node && (failure || pass.starter == node->self().id))
          tell_starter(*node, pass, report, failure);
      });
}

void serve_forget(std::uint64_t context, std::uint64_t pass) {
  auto& table = context_table::of(*current_node());
  if (const auto part = table.look_up(context)) send(table.actor_of(part), forget_pass{pass});
}

void serve_end(std::uint64_t context, std::string why) {
  context_table::of(*current_node()).end(context, why);
}

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

}  // namespace

next_step ask_for_marks(node_core& here, std::uint32_t rank, mark_sends what) {
  what.step = context_table::of(here).next_number();
  begin_step<&serve_marks>(here, rank, what);
  return {what.step, rank};
}

next_step ask_to_resume(node_core& here, std::uint32_t rank, resume what) {
  what.step = context_table::of(here).next_number();
  begin_step<&serve_resume>(here, rank, what);
  return {what.step, rank};
}

next_step send_gradients(node_core& here, peer& to, gradients_arrive what) {
  what.step = context_table::of(here).next_number();
  begin_step<&serve_gradients>(here, to.info, what);
  return {what.step, to.rank()};
}

void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept {
  tell<&serve_forget>(here, whom, context, pass);
}

void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why) noexcept {
  tell<&serve_end>(here, whom, context, why);
}

namespace {

// A pass as its starter runs it, in rounds: the gradients; and if some nodes are blocked then,
// since the roots do not depend on all messages, a walk that finds those that take part, and the
// rest.
class started_pass {
public:
  started_pass(const node& here, std::shared_ptr<participant> part, const pass_options& how,
               bool on_this_thread)
      : here_(here.core()),
        part_(std::move(part)),
        actor_(context_table::of(here_).actor_of(part_)),
        on_this_thread_(on_this_thread) {
    pass_.context = part_->id();
    pass_.number = context_table::of(here_).next_number();
    pass_.starter = here_.self().id;
    pass_.mode = how.mode;
    pass_.create_graph = how.create_graph;
    pass_.keep_graph = how.retain_graph || how.create_graph;
  }
  ~started_pass() { part_->watch(pass_.number, nullptr); }
  started_pass(const started_pass&) = delete;
  started_pass& operator=(const started_pass&) = delete;

  future<void> run(const std::vector<at::Tensor>& roots) {
    return begin<run_from_roots>([&](auto& first) { first.roots = roots; });
  }
  future<void> walk(const std::vector<at::Tensor>& roots) {
    return begin<walk_from_roots>([&](auto& first) { first.roots = roots; });
  }
  future<void> resume() {
    return begin<resume_all>([&](auto& first) { first.ranks = blocked_; });
  }

  /// After the first round: are there others to come? Throws invalid_argument in fast mode.
  bool blocked() {
    for (const auto& [rank, one] : watch_->standings()) {
      if (one.awaited.empty()) continue;
      leaves_out_ = true;
      if (pass_.mode == pass_mode::fast) throw_incomplete(rank, one.awaited.size());
      if (one.blocked) blocked_.push_back(rank);
    }
    std::sort(blocked_.begin(), blocked_.end());
    return !blocked_.empty();
  }

  /// The pass is over. Where it has left messages out nodes still wait for those.
  void end() const {
    if (leaves_out_) forget();
  }
  void forget() const { send(actor_, forget_pass{pass_.number}); }

private:
  // Begins a round by its first step, on this thread if asked. Ready when all that follows from it
  // is over.
  template <class Message, class Fill>
  future<void> begin(const Fill& fill) {
    watch_ = std::make_shared<pass_watch>(here_.driver(), pass_.number, pass_.starter);
    part_->watch(pass_.number, watch_);
    Message first;
    first.pass = pass_;
    fill(first);
    when_over(on_this_thread_ ? troupe::detail::request_here(here_, actor_, std::move(first))
                              : request(actor_, std::move(first)),
              [watch = watch_](step_report* report, const std::exception_ptr& failure) {
                failure ? watch->fail(failure) : watch->add(step_report(*report));
              });
    return watch_->over();
  }

  // In fast mode all messages take part, and those that the roots do not use get no gradients.
  [[noreturn]] void throw_incomplete(std::uint32_t rank, std::size_t awaited) const {
    throw invalid_argument(fmt::format(
        "the backward pass is not complete: {} still awaits the gradients of {} of the context's "
        "messages, since the roots do not depend on them. Gradients of that node are missing. Use "
        "pass_mode::smart, which leaves such messages out",
        here_.actors().peers().name_of(rank), awaited));
  }

  node_core& here_;
  const std::shared_ptr<participant> part_;
  const pass_actor actor_;
  pass_info pass_;
  const bool on_this_thread_;
  std::shared_ptr<pass_watch> watch_;
  std::vector<std::uint32_t> blocked_;  // ranks
  bool leaves_out_ = false;
};

// What others send the starter of a pass, while it waits for its end.
class steps_of final : public expected_calls {
public:
  explicit steps_of(std::uint64_t context) : context_(context) {}

  bool contain(const opened_envelope& call) const noexcept override {
    static const std::uint64_t all[] = {
        callable<&serve_marks>::hash(), callable<&serve_gradients>::hash(),
        callable<&serve_resume>::hash(), callable<&serve_report>::hash(),
        callable<&serve_failure>::hash()};
    if (std::find(std::begin(all), std::end(all), call.header().target) == std::end(all))
      return false;
    try {
      decoder in(call.body(), nullptr, nullptr);
      return in.get<std::uint64_t>() == context_;  // the first field of the pass
    } catch (const decode_error&) {
      return false;  // whoever runs it tells
    }
  }

private:
  const std::uint64_t context_;
};

}  // namespace

void run_pass(const node& here, const std::shared_ptr<participant>& part,
              const std::vector<at::Tensor>& roots, const pass_options& how) {
  check_roots(roots);
  started_pass pass(here, part, how, true);
  const steps_of these(part->id());
  const expected_calls::scope serves(these);
  try {
    pass.run(roots).get();
    if (pass.blocked()) {
      pass.walk(roots).get();
      pass.resume().get();
    }
    pass.end();
  } catch (...) {
    pass.forget();
    throw;
  }
}

task<void> run_pass_aside(node here, std::shared_ptr<participant> part,
                          std::vector<at::Tensor> roots, pass_options how) {
  check_roots(roots);
  started_pass pass(here, std::move(part), how, false);
  std::exception_ptr failure;
  try {
    // Nothing is made within a co_await's expression: g++ 12 destroys such aggregates twice.
    const auto run = pass.run(roots);
    co_await run;
    if (pass.blocked()) {
      const auto walk = pass.walk(roots);
      co_await walk;
      const auto rest = pass.resume();
      co_await rest;
    }
    pass.end();
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  pass.forget();
  std::rethrow_exception(failure);
}

}  // namespace troupe::autograd::detail
