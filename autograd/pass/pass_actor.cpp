// The actor of a participant: one step of one pass after the other.

#include "troupe/autograd/pass/pass_worker_state.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"

namespace troupe::autograd::detail {

pass_actor::behavior_type run_passes(pass_actor::pointer, std::shared_ptr<pass_desk> desk) {
  using steps = pass_part::steps;
  return {
      [desk](const walk_from_roots& what) {
        return desk->step(what.pass, what.pass.number,
                          [&](pass_part& pass, steps& caused) { pass.walk(what.roots, caused); });
      },
      [desk](const mark_sends& what) {
        return desk->step(what.pass, what.step,
                          [&](pass_part& pass, steps& caused) { pass.walk(what.numbers, caused); });
      },
      [desk](const run_from_roots& what) {
        return desk->step(what.pass, what.pass.number, [&](pass_part& pass, steps& caused) {
          pass.run(what.roots, what.gradients, caused);
        });
      },
      [desk](gradients_arrive& what) {
        return desk->step(what.pass, what.step, [&](pass_part& pass, steps& caused) {
          pass.run(std::move(what), caused);
        });
      },
      [desk](const resume_all& what) {
        return desk->step(what.pass, what.pass.number, [&](pass_part&, steps& caused) {
          for (const auto rank : what.ranks)
            caused.push_back(ask_to_resume(desk->node(), rank, {what.pass}));
        });
      },
      [desk](const resume& what) {
        return desk->step(what.pass, what.step,
                          [&](pass_part& pass, steps& caused) { pass.resume(caused); });
      },
      [desk](const forget_pass& what) { desk->forget(what); },
      [desk](const leave_context&) { desk->leave(); },
  };
}

}  // namespace troupe::autograd::detail
