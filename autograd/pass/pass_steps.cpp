#include "troupe/autograd/pass/pass_steps.hpp"

#include <algorithm>

#include "troupe/actors/remote/inline_run.hpp"
#include "troupe/actors/rpc/one_way.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/pass/pass_tracker.hpp"
#include "troupe/messages/envelope/error_codec.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::autograd::detail {

namespace {

// Steps must neither wait nor be refused where a window is full, nor must what is said of them. A
// pass has a few of them for each message of its context.
const call_options always{.limit = std::chrono::milliseconds(0), .exceeds_window = true};

node as_node(node_core& core) { return node(core.shared_from_this()); }

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
    const troupe::detail::call_context_scope nothing(troupe::detail::apart());
    if (pass.starter == here.self().id) {
      if (const auto watch = watch_of(here, pass))
        failure ? watch->fail(failure) : watch->add(step_report(*report));
    } else if (failure) {
      const auto why = to_caf(describe(failure, here.self().name, {}));
      troupe::detail::call_one_way<&serve_failure>(here, here.find(pass.starter), always, pass,
                                                      why);
    } else {
      troupe::detail::call_one_way<&serve_report>(here, here.find(pass.starter), always, pass,
                                                     *report);
    }
  } catch (const std::exception& e) {  // it is lost
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
  const bool asked_by_starter = current_active_call().from->rank() == pass.starter;
  auto step =
      troupe::detail::request_inline(here, table.actor_of(table.find(pass.context)), std::move(what));
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
void begin_step(node_core& here, const destination& to, const Message& what,
                const call_options& how = always) {
  const auto pass = what.pass;
  when_over(
      as_node(here).rpc_async<F>(to, what, how),
      [weak = here.weak_from_this(), pass](step_report* report, const std::exception_ptr& failure) {
        const auto node = weak.lock();
        if (node && (failure || pass.starter == node->self().id))
          tell_starter(*node, pass, report, failure);
      });
}

void serve_forget(std::uint64_t context, std::uint64_t pass) {
  auto& table = context_table::of(*current_node());
  if (const auto part = table.look_up(context))
    send(table.actor_of(part), forget_pass{context, pass});
}

void serve_end(std::uint64_t context, std::string why) {
  context_table::of(*current_node()).end(context, why);
}

// For what nobody waits for, and which a lost node need not hear.
template <auto F, class... Args>
void tell(node_core& here, peer& whom, const Args&... args) noexcept {
  const troupe::detail::call_context_scope nothing(troupe::detail::apart());
  try {
    if (whom.live()) troupe::detail::call_one_way<F>(here, whom, {.exceeds_window = true}, args...);
  } catch (const std::exception& e) {
    log().debug("{} could not tell {}: {}", here.self().name, whom.info.name, e.what());
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

next_step send_gradients(node_core& here, const receive_node& of, gradients_arrive what) {
  what.step = context_table::of(here).next_number();
  auto how = always;
  how.uses_reply_route = !of.came_back();
  begin_step<&serve_gradients>(here, of.from(), what, how);
  return {what.step, of.from().id};
}

void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept {
  tell<&serve_forget>(here, whom, context, pass);
}

// Who passes the word on waits for an answer before it leaves the job; if the opener goes, others
// hear of that.
void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why,
              bool is_opener) noexcept {
  if (is_opener) return tell<&serve_end>(here, whom, context, why);
  const troupe::detail::call_context_scope nothing(troupe::detail::apart());
  try {
    if (whom.live())
      (void)as_node(here).rpc_async<&serve_end>(whom.info, context, why,
                                                call_options{.exceeds_window = true});
  } catch (const std::exception& e) {
    log().debug("{} could not tell {}: {}", here.self().name, whom.info.name, e.what());
  }
}

bool is_step_of(const pass_info& pass, const opened_envelope& call) noexcept {
  static const std::uint64_t all[] = {
      callable<&serve_marks>::hash(), callable<&serve_gradients>::hash(),
      callable<&serve_resume>::hash(), callable<&serve_report>::hash(),
      callable<&serve_failure>::hash()};
  if (std::find(std::begin(all), std::end(all), call.header().target) == std::end(all))
    return false;
  try {
    decoder in(call.body(), nullptr, nullptr);
    const auto context = in.get<std::uint64_t>();  // the pass begins with these
    return context == pass.context && in.get<std::uint64_t>() == pass.number;
  } catch (const decode_error&) {
    return false;  // whoever runs it tells
  }
}

}  // namespace troupe::autograd::detail
