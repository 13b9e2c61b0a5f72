// The actor of a participant: one step of one pass after the other.

#include <deque>

#include "actors/spawn.hpp"
#include "autograd/context_table.hpp"
#include "autograd/distributed_pass.hpp"
#include "autograd/pass_runner.hpp"
#include "autograd/pass_steps.hpp"
#include "messages/error_codec.hpp"

namespace troupe::autograd::detail {

namespace {

/// What the actor knows. Gone with the actor.
class pass_desk {
public:
  pass_desk(node_core& node, std::shared_ptr<participant> part)
      : node_(node), part_(std::move(part)) {}

  template <class Work>
  caf::result<step_report> step(const pass_info& what, std::uint64_t number, const Work& work) {
    try {
      auto& pass = pass_of(what);
      step_report report;
      report.step = number;
      work(pass, report.caused);
      report.standing = pass.standing();
      if (pass.done()) passes_.erase(what.number);
      return report;
    } catch (...) {
      const auto why = describe(std::current_exception(), node_.self().name, {});
      forget(what.number);
      return to_caf(why);
    }
  }

  /// Each node tells those that it knows, once.
  void forget(std::uint64_t number) {
    passes_.erase(number);
    if (!forgotten_.insert(number).second) return;
    order_.push_back(number);
    if (order_.size() > most_forgotten) {
      forgotten_.erase(order_.front());
      order_.pop_front();
    }
    for (auto* whom : part_->known())
      if (whom->rank() != node_.self().id) tell_forget(node_, *whom, part_->id(), number);
  }

private:
  static constexpr std::size_t most_forgotten = 1024;

  pass_part& pass_of(const pass_info& what) {
    if (forgotten_.contains(what.number))
      throw invalid_argument("the backward pass has failed on another node");
    auto& place = passes_[what.number];
    if (!place) place = std::make_unique<pass_part>(node_, part_, what);
    return *place;
  }

  node_core& node_;
  const std::shared_ptr<participant> part_;
  std::unordered_map<std::uint64_t, std::unique_ptr<pass_part>> passes_;
  std::unordered_set<std::uint64_t> forgotten_;
  std::deque<std::uint64_t> order_;
};

}  // namespace

pass_actor::behavior_type run_passes(pass_actor::pointer, node_core* node,
                                     std::shared_ptr<participant> part) {
  using steps = pass_part::steps;
  const auto desk = std::make_shared<pass_desk>(*node, std::move(part));
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
        return desk->step(what.pass, what.pass.number,
                          [&](pass_part& pass, steps& caused) { pass.run(what.roots, caused); });
      },
      [desk](gradients_arrive& what) {
        return desk->step(what.pass, what.step, [&](pass_part& pass, steps& caused) {
          pass.run(std::move(what), caused);
        });
      },
      [desk, node](const resume_all& what) {
        return desk->step(what.pass, what.pass.number, [&](pass_part&, steps& caused) {
          for (const auto rank : what.ranks)
            caused.push_back(ask_to_resume(*node, rank, {what.pass}));
        });
      },
      [desk](const resume& what) {
        return desk->step(what.pass, what.step,
                          [&](pass_part& pass, steps& caused) { pass.resume(caused); });
      },
      [desk](const forget_pass& what) { desk->forget(what.number); },
  };
}

pass_actor spawn_pass_actor(node_core& node, std::shared_ptr<participant> part) {
  return troupe::detail::spawn_function<caf::lazy_init>(node, &run_passes, &node, std::move(part));
}

}  // namespace troupe::autograd::detail
