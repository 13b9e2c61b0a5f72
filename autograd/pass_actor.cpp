// The actor of a participant: one step of one pass after the other.

#include <deque>

#include "autograd/context_table.hpp"
#include "autograd/distributed_pass.hpp"
#include "autograd/pass_runner.hpp"
#include "messages/error_codec.hpp"

namespace troupe::autograd::detail {

namespace {

using report_promise = caf::typed_response_promise<pass_report>;

/// What the actor knows. Gone with the actor.
class pass_desk {
public:
  pass_desk(pass_actor::pointer self, node_core& node, std::shared_ptr<participant> part)
      : self_(self), node_(node), part_(std::move(part)) {}

  /// Does a step of a pass, and answers when the calls have ended that it makes.
  template <class Work>
  report_promise step(const pass_info& what, bool begins, const Work& work) {
    auto promise = self_->make_response_promise<pass_report>();
    pass_part::calls under_way;
    pass_report report;
    try {
      auto& pass = pass_of(what, begins);
      work(pass, under_way);
      report.add(pass.standing());
      if (pass.done()) passes_.erase(what.number);
    } catch (...) {
      const auto why = describe(std::current_exception(), node_.self().name, {});
      forget(what.number);
      promise.deliver(to_caf(why));
      return promise;
    }
    if (under_way.empty()) {
      promise.deliver(std::move(report));
      return promise;
    }
    const auto number = ++last_step_;
    steps_.emplace(number, waiting_step{promise, std::move(report), under_way.size()});
    for (const auto& call : under_way) tell_of_end(call, number);
    return promise;
  }

  void call_has_ended(call_ended& how) {
    const auto place = steps_.find(how.step);
    if (place == steps_.end()) return;
    auto& step = place->second;
    if (how.failure) {
      step.promise.deliver(std::move(how.failure));
      steps_.erase(place);
      return;
    }
    step.report.merge(std::move(how.report));
    if (--step.left > 0) return;
    step.promise.deliver(std::move(step.report));
    steps_.erase(place);
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
  struct waiting_step {
    report_promise promise;
    pass_report report;
    std::size_t left;
  };
  static constexpr std::size_t most_forgotten = 1024;

  pass_part& pass_of(const pass_info& what, bool begins) {
    if (forgotten_.contains(what.number))
      throw invalid_argument("the backward pass has failed on another node");
    auto& place = passes_[what.number];
    if (!place) {
      if (!begins && what.mode == pass_mode::smart) {
        passes_.erase(what.number);
        throw invalid_argument("gradients of a backward pass that " + node_.self().name +
                               " has no part in");
      }
      place = std::make_unique<pass_part>(node_, part_, what);
    }
    return *place;
  }

  void tell_of_end(const future<pass_report>& call, std::uint64_t step) {
    const auto state = call.shared();
    state->when_ready(troupe::detail::make_continuation(
        [state, step, me = pass_actor(self_), name = node_.self().name] {
          call_ended how;
          how.step = step;
          if (state->failure())
            how.failure = to_caf(describe(state->failure(), name, {}));
          else
            how.report = std::move(*state->value());
          send(me, std::move(how));
        }));
  }

  const pass_actor::pointer self_;
  node_core& node_;
  const std::shared_ptr<participant> part_;
  std::unordered_map<std::uint64_t, std::unique_ptr<pass_part>> passes_;
  std::unordered_map<std::uint64_t, waiting_step> steps_;
  std::uint64_t last_step_ = 0;
  std::unordered_set<std::uint64_t> forgotten_;
  std::deque<std::uint64_t> order_;
};

}  // namespace

pass_actor::behavior_type run_passes(pass_actor::pointer self, node_core* node,
                                     std::shared_ptr<participant> part) {
  const auto desk = std::make_shared<pass_desk>(self, *node, std::move(part));
  return {
      [desk](const walk_from_roots& what) {
        return desk->step(what.pass, true, [&](pass_part& pass, pass_part::calls& calls) {
          pass.walk(what.roots, calls);
        });
      },
      [desk](const mark_sends& what) {
        return desk->step(what.pass, true, [&](pass_part& pass, pass_part::calls& calls) {
          pass.walk(what.numbers, calls);
        });
      },
      [desk](const run_from_roots& what) {
        return desk->step(what.pass, true, [&](pass_part& pass, pass_part::calls& calls) {
          pass.run(what.roots, calls);
        });
      },
      [desk](gradients_arrive& what) {
        return desk->step(what.pass, false, [&](pass_part& pass, pass_part::calls& calls) {
          pass.run(what.number, std::move(what.gradients), calls);
        });
      },
      [desk](const forget_pass& what) { desk->forget(what.number); },
      [desk](call_ended& how) { desk->call_has_ended(how); },
  };
}

pass_actor spawn_pass_actor(node_core& node, std::shared_ptr<participant> part) {
  return troupe::detail::spawn_function(node, &run_passes, &node, std::move(part));
}

}  // namespace troupe::autograd::detail
