#include "troupe/autograd/pass/distributed_pass.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <optional>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/inline_run.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"
#include "troupe/autograd/pass/pass_tracker.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::autograd::detail {

namespace {

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

caf::actor_id id_of(const pass_actor& actor) {
  return caf::actor_cast<caf::strong_actor_ptr>(actor)->id();
}

// A pass as its starter runs it, in up to three rounds. The first one runs the gradients as if the
// roots depended on every message of the context. Nodes that are blocked then wait for gradients of
// messages that the roots do not depend on: a second round walks the graph and marks the messages
// that take part, and the third one has the blocked nodes leave out the others.
class pass_starter {
public:
  pass_starter(const node& here, std::shared_ptr<participant> part, const pass_options& how,
               bool on_this_thread)
      : here_(here.core()),
        part_(std::move(part)),
        actor_(actor_of(here_, part_)),
        on_this_thread_(on_this_thread) {
    pass_.context = part_->id();
    pass_.number = context_table::of(here_).next_number();
    pass_.starter = here_.self().id;
    pass_.mode = how.mode;
    pass_.create_graph = how.create_graph;
    pass_.keep_graph = how.retain_graph || how.create_graph;
  }
  ~pass_starter() { part_->track(pass_.number, nullptr); }
  pass_starter(const pass_starter&) = delete;
  pass_starter& operator=(const pass_starter&) = delete;

  const pass_info& info() const noexcept { return pass_; }

  /// The gradients of leaves are added to their .grad.
  void write_grad() noexcept { pass_.into_grad = true; }

  /// `gradients`: of the roots; ones if it is empty.
  future<void> run(const std::vector<at::Tensor>& roots,
                   const std::vector<at::Tensor>& gradients = {}) {
    return begin<run_from_roots>([&](auto& first) {
      first.roots = roots;
      first.gradients = gradients;
    });
  }
  future<void> walk(const std::vector<at::Tensor>& roots) {
    return begin<walk_from_roots>([&](auto& first) { first.roots = roots; });
  }
  future<void> resume() {
    return begin<resume_all>([&](auto& first) { first.ranks = blocked_; });
  }

  /// After the first round: is a walk needed? Throws invalid_argument in fast mode.
  bool blocked() {
    for (const auto& [rank, one] : tracker_->standings()) {
      if (one.awaited.empty()) continue;
      leaves_out_ = true;
      if (pass_.mode == pass_mode::fast) throw_incomplete(rank, one.awaited.size());
      if (one.blocked) blocked_.push_back(rank);
    }
    std::sort(blocked_.begin(), blocked_.end());
    return !blocked_.empty();
  }

  /// The pass is over. Nodes still wait for the messages that it has left out.
  void end() const {
    if (leaves_out_) forget();
  }
  void forget() const { send(actor_, forget_pass{pass_.context, pass_.number}); }

private:
  // Begins a round by its first step, on this thread if asked. Ready when every step that follows
  // from it is over.
  template <class Message, class Fill>
  future<void> begin(const Fill& fill) {
    tracker_ = std::make_shared<pass_tracker>(here_, pass_.number);
    part_->track(pass_.number, tracker_);
    Message first;
    first.pass = pass_;
    fill(first);
    when_over(on_this_thread_ ? troupe::detail::request_inline(here_, actor_, std::move(first))
                              : request(actor_, std::move(first)),
              [tracker = tracker_](step_report* report, const std::exception_ptr& failure) {
                failure ? tracker->fail(failure) : tracker->add(step_report(*report));
              });
    return tracker_->over();
  }

  // In fast mode all messages take part, and those that the roots do not use get no gradients.
  [[noreturn]] void throw_incomplete(std::uint32_t rank, std::size_t awaited) const {
    throw invalid_argument(fmt::format(
        "the backward pass is not complete: {} still awaits the gradients of {} of the context's "
        "messages, since the roots do not depend on them. Gradients of that node are missing. Use "
        "pass_mode::smart, which leaves such messages out",
        here_.peers().name_of(rank), awaited));
  }

  node_core& here_;
  const std::shared_ptr<participant> part_;
  const pass_actor actor_;
  pass_info pass_;
  const bool on_this_thread_;
  std::shared_ptr<pass_tracker> tracker_;
  std::vector<std::uint32_t> blocked_;  // ranks
  bool leaves_out_ = false;
};

// The calls that the thread of a pass's starter serves while it waits for the end.
class steps_of final : public expected_calls {
public:
  explicit steps_of(const pass_info& pass) : pass_(pass) {}
  bool contain(const opened_envelope& call) const noexcept override {
    return is_step_of(pass_, call);
  }

private:
  const pass_info& pass_;
};

// An executor cannot run on a thread that is in a pass of libtorch's engine, in a hook say.
bool may_run_here() { return torch::autograd::get_current_graph_task_id() == -1; }

// Returns when it is over.
void run_to_end(pass_starter& pass, bool on_this_thread, const std::vector<at::Tensor>& roots,
                const std::vector<at::Tensor>& gradients) {
  const steps_of these(pass.info());
  std::optional<expected_calls::scope> serves;
  if (on_this_thread) serves.emplace(these);
  try {
    pass.run(roots, gradients).get();
    if (pass.blocked()) {
      pass.walk(roots).get();
      pass.resume().get();
    }
    pass.end();
    troupe::detail::take_from_default();  // other threads have added to gradients
  } catch (...) {
    pass.forget();
    throw;
  }
}

}  // namespace

void refuse_pass_within_itself(const node& here, const std::shared_ptr<participant>& part) {
  if (engine::runs_actor(here.core(), id_of(actor_of(here.core(), part))))
    throw deadlock_error(
        "a hook of a backward pass waits for another pass of its context, which can only begin "
        "after the one that the hook belongs to");
}

void run_pass(const node& here, const std::shared_ptr<participant>& part,
              const std::vector<at::Tensor>& roots, const pass_options& how) {
  check_roots(roots);
  refuse_pass_within_itself(here, part);
  const bool on_this_thread = may_run_here();
  pass_starter pass(here, part, how, on_this_thread);
  run_to_end(pass, on_this_thread, roots, {});
}

void run_plain_pass(const node& here, const std::shared_ptr<participant>& part,
                    const at::Tensor& root, const at::Tensor& gradient, const pass_options& how) {
  const bool on_this_thread = may_run_here();
  pass_starter pass(here, part, how, on_this_thread);
  pass.write_grad();
  std::vector<at::Tensor> gradients;
  if (gradient.defined()) gradients.push_back(gradient);
  run_to_end(pass, on_this_thread, {root}, gradients);
}

namespace {

task<void> run_async(node here, std::shared_ptr<participant> part, std::vector<at::Tensor> roots,
                     pass_options how) {
  check_roots(roots);
  pass_starter pass(here, std::move(part), how, false);
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

}  // namespace

future<void> run_pass_async(const node& here, const std::shared_ptr<participant>& part,
                            const std::vector<at::Tensor>& roots, const pass_options& how) {
  const auto actor = actor_of(here.core(), part);
  future<void> over = run_async(here, part, roots, how);
  over.state().answered_by(id_of(actor));
  // Holds the actor until then, so that it serves no other context meanwhile: what waits there for
  // this pass would seem to wait for itself.
  over.state().when_ready(troupe::detail::make_continuation([actor] {}));
  return over;
}

}  // namespace troupe::autograd::detail
