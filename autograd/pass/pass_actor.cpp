#include "troupe/autograd/pass/pass_actor.hpp"

#include "troupe/autograd/pass/pass_steps.hpp"
#include "troupe/autograd/pass/pass_worker_state.hpp"

namespace troupe::autograd::detail {

pass_actor::behavior_type run_passes(pass_actor::pointer,
                                     std::shared_ptr<pass_worker_state> state) {
  using steps = pass_runner::steps;
  return {
      [state](const walk_from_roots& what) {
        return state->step(what.pass, what.pass.number, [&](pass_runner& pass, steps& caused) {
          pass.walk(what.roots, caused);
        });
      },
      [state](const mark_sends& what) {
        return state->step(what.pass, what.step, [&](pass_runner& pass, steps& caused) {
          pass.walk(what.numbers, caused);
        });
      },
      [state](const run_from_roots& what) {
        return state->step(what.pass, what.pass.number, [&](pass_runner& pass, steps& caused) {
          pass.run(what.roots, what.gradients, caused);
        });
      },
      [state](gradients_arrive& what) {
        return state->step(what.pass, what.step, [&](pass_runner& pass, steps& caused) {
          pass.run(std::move(what), caused);
        });
      },
      [state](const resume_all& what) {
        return state->step(what.pass, what.pass.number, [&](pass_runner&, steps& caused) {
          for (const auto rank : what.ranks)
            caused.push_back(request_resume(state->node(), rank, {what.pass}));
        });
      },
      [state](const resume& what) {
        return state->step(what.pass, what.step,
                           [&](pass_runner& pass, steps& caused) { pass.resume(caused); });
      },
      [state](const forget_pass& what) { state->forget(what); },
      [state](const leave_context&) { state->leave(); },
  };
}

}  // namespace troupe::autograd::detail
