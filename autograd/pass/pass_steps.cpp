#include "troupe/autograd/pass/pass_steps.hpp"

#include <algorithm>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/inline_run.hpp"
#include "troupe/actors/rpc/one_way.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/context/notify.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/autograd/pass/pass_tracker.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/envelope/error_codec.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::autograd::detail {

namespace {

// Steps and their reports neither wait for credit nor are refused without: a node that waited would
// keep others from finishing what would free the credit. A pass has a few of them for each message
// of its context.
const call_options always{.limit = std::chrono::milliseconds(0), .exceeds_window = true};

node as_node(node_core& core) { return node(core.shared_from_this()); }

// ---- Reports to the starter of a pass

// nullptr: the round is over. Only pass_trackers are entered (distributed_pass.cpp).
std::shared_ptr<pass_tracker> tracker_of(node_core& here, const pass_info& pass) {
  const auto part = context_table::of(here).look_up(pass.context);
  return part ? std::static_pointer_cast<pass_tracker>(part->tracked(pass.number)) : nullptr;
}

void serve_report(pass_info pass, step_report report) {
  if (const auto tracker = tracker_of(*current_node(), pass)) tracker->add(std::move(report));
}

void serve_failure(pass_info pass, const caf::error& why) {
  if (const auto tracker = tracker_of(*current_node(), pass))
    tracker->fail(to_exception(to_fault(why)));
}

// Reports a step that is over, or has failed. If the starter is lost the report is not needed.
void report_to_starter(node_core& here, const pass_info& pass, step_report* report,
                       const std::exception_ptr& failure) noexcept {
  try {
    const troupe::detail::call_context_scope nothing(troupe::detail::apart());
    if (pass.starter == here.self().id) {
      if (const auto tracker = tracker_of(here, pass))
        failure ? tracker->fail(failure) : tracker->add(step_report(*report));
    } else if (failure) {
      const auto why = to_caf(describe(failure, here.self().name, {}));
      troupe::detail::call_one_way<&serve_failure>(here.agent(), here.find(pass.starter), always,
                                                   pass, why);
    } else {
      troupe::detail::call_one_way<&serve_report>(here.agent(), here.find(pass.starter), always,
                                                  pass, *report);
    }
  } catch (const std::exception& e) {  // it is lost
    log().debug("{} could not report a step to rank {}: {}", here.self().name, pass.starter,
                e.what());
  }
}

// ---- Steps that other nodes begin on this one

// The answer goes to the caller. If that is the starter, it is the report as well; else the starter
// gets one of its own, so that no answer waits for another and a chain of n nodes takes n hops.
template <class Message>
future<step_report> serve_step(Message what) {
  auto& here = *current_node();
  auto& table = context_table::of(here);
  const auto pass = what.pass;
  const bool called_by_starter = current_active_call().from->rank() == pass.starter;
  auto step = troupe::detail::request_inline(here, actor_of(here, table.find(pass.context)),
                                             std::move(what));
  if (!called_by_starter)
    when_over(step, [weak = here.weak_from_this(), pass](step_report* report,
                                                         const std::exception_ptr& failure) {
      if (const auto node = weak.lock()) report_to_starter(*node, pass, report, failure);
    });
  return step;
}

future<step_report> serve_marks(mark_sends what) { return serve_step(std::move(what)); }
future<step_report> serve_resume(resume what) { return serve_step(what); }
// The pass runs on another thread perhaps, which takes them from the default streams.
future<step_report> serve_gradients(gradients_arrive what) {
  troupe::detail::hand_to_default(troupe::detail::current_work().get());
  return serve_step(std::move(what));
}

void serve_forget(std::uint64_t context, std::uint64_t pass) {
  auto& here = *current_node();
  if (const auto part = context_table::of(here).look_up(context))
    send(actor_of(here, part), forget_pass{context, pass});
}

// ---- Steps that this node begins on others

// The callee reports success to the starter. Failures are reported from here too, since the call
// may not have been delivered; the tracker ignores what comes twice.
template <auto F, class Message>
void begin_step(node_core& here, const destination& to, const Message& what,
                const call_options& how = always) {
  const auto pass = what.pass;
  when_over(
      as_node(here).rpc_async<F>(to, what, how),
      [weak = here.weak_from_this(), pass](step_report* report, const std::exception_ptr& failure) {
        const auto node = weak.lock();
        if (node && (failure || pass.starter == node->self().id))
          report_to_starter(*node, pass, report, failure);
      });
}

}  // namespace

next_step request_marks(node_core& here, std::uint32_t rank, mark_sends what) {
  what.step = context_table::of(here).next_number();
  begin_step<&serve_marks>(here, rank, what);
  return {what.step, rank};
}

next_step request_resume(node_core& here, std::uint32_t rank, resume what) {
  what.step = context_table::of(here).next_number();
  begin_step<&serve_resume>(here, rank, what);
  return {what.step, rank};
}

next_step send_gradients(node_core& here, const recv_rpc_backward& of, gradients_arrive what) {
  what.step = context_table::of(here).next_number();
  auto how = always;
  how.uses_reply_route = !of.came_back();
  begin_step<&serve_gradients>(here, of.from(), what, how);
  return {what.step, of.from().id};
}

void notify_forget(node_core& here, peer& to, std::uint64_t context, std::uint64_t pass) noexcept {
  notify<&serve_forget>(here, to, context, pass);
}

bool is_step_of(const pass_info& pass, const opened_envelope& call) noexcept {
  static const std::uint64_t all[] = {
      callable<&serve_marks>::hash(), callable<&serve_gradients>::hash(),
      callable<&serve_resume>::hash(), callable<&serve_report>::hash(),
      callable<&serve_failure>::hash()};
  if (std::find(std::begin(all), std::end(all), call.header().target) == std::end(all))
    return false;
  try {
    // All of them begin with a pass_info, and that with these two.
    decoder in(call.body(), nullptr, nullptr);
    const auto context = in.get<std::uint64_t>();
    return context == pass.context && in.get<std::uint64_t>() == pass.number;
  } catch (const decode_error&) {
    return false;  // the thread that runs the call reports the error
  }
}

pass_actor actor_of(node_core& here, const std::shared_ptr<participant>& part) {
  return caf::actor_cast<pass_actor>(context_table::of(here).worker_of(part));
}

}  // namespace troupe::autograd::detail
