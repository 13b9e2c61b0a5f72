#include "tests/autograd/graphs/spread_blocks.hpp"

#include <torch/types.h>

#include <caf/typed_response_promise.hpp>

#include <optional>

#include "tests/autograd/graphs/random_operations.hpp"
#include "troupe/messages/codec/message_codec.hpp"
#include "troupe/messages/envelope/error_codec.hpp"

namespace troupe::test {

namespace {

using tensors = std::vector<at::Tensor>;

tensors run_here(const node& here, const spread_program& of, std::uint32_t which,
                 const std::vector<value>& given);
tensors run_block(const spread_program& of, std::uint32_t which, const std::vector<value>& given);
task<tensors> run_block_later(const spread_program& of, std::uint32_t which,
                              const std::vector<value>& given);

std::vector<value> together(const at::Tensor& first, const std::vector<value>& rest) {
  std::vector<value> all(1);
  all[0].here = first;
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}
tensors run_on(const at::Tensor& first, const spread_program& of, std::uint32_t which,
               const std::vector<value>& rest) {
  return run_block(of, which, together(first, rest));
}
task<tensors> run_on_later(const at::Tensor& first, const spread_program& of, std::uint32_t which,
                           const std::vector<value>& rest) {
  const auto all = together(first, rest);
  const auto made = run_block_later(of, which, all);
  co_return co_await made;
}
tensors run_on_own(at::Tensor& first, const spread_program& of, std::uint32_t which,
                   const std::vector<value>& rest) {
  return run_block(of, which, together(first, rest));
}

// The same with one result, which may stay.
at::Tensor make_block(const spread_program& of, std::uint32_t which,
                      const std::vector<value>& given) {
  return run_block(of, which, given)[0];
}
task<at::Tensor> make_block_later(const spread_program& of, std::uint32_t which,
                                  const std::vector<value>& given) {
  const auto made = run_block_later(of, which, given);
  const tensors all = co_await made;
  co_return all[0];
}
at::Tensor make_on(const at::Tensor& first, const spread_program& of, std::uint32_t which,
                   const std::vector<value>& rest) {
  return run_on(first, of, which, rest)[0];
}
at::Tensor make_on_own(at::Tensor& first, const spread_program& of, std::uint32_t which,
                       const std::vector<value>& rest) {
  return run_on_own(first, of, which, rest)[0];
}

// A block that runs. Who drives it waits for what a step needs, and then does the step.
class frame {
public:
  frame(node here, const spread_program& of, std::uint32_t which, const std::vector<value>& given)
      : here_(std::move(here)), all_(of), of_(of.what.blocks[which]) {
    for (const auto& one : given) slots_.push_back({one, {}, 0, one.here.defined()});
  }

  const std::vector<step>& steps() const { return of_.steps; }

  /// Of which it needs values: those of calls under way, and those of references if it must.
  std::vector<std::uint32_t> needs(const step& what) const {
    std::vector<std::uint32_t> out;
    for (const auto i : what.operands)
      if (slots_[i].coming.valid() || what.what == step::kind::operate) out.push_back(i);
    return out;
  }
  const std::vector<std::uint32_t>& results() const { return of_.results; }

  future<tensors> coming(std::uint32_t i) const { return slots_[i].coming; }
  void has_come(std::uint32_t i, const tensors& values) {
    auto& one = slots_[i];
    one.has.here = values[one.nth];
    one.coming = {};
  }
  bool must_fetch(std::uint32_t i) const { return !slots_[i].has.here.defined(); }
  const rref<at::Tensor>& reference(std::uint32_t i) const { return slots_[i].has.there; }
  void has_come(std::uint32_t i, const at::Tensor& it) { slots_[i].has.here = it; }

  void perform(const step& what) {
    switch (what.what) {
      case step::kind::parameter: return add_reference(all_.parameters[what.number]);
      case step::kind::operate: {
        tensors xs;
        for (const auto i : what.operands) xs.push_back(slots_[i].has.here);
        const bool owns = slots_[what.operands[0]].is_own;
        return add(compute(all_.what, what, std::move(xs), owns));
      }
      case step::kind::call: return call(what);
    }
  }

  tensors take_results() const {
    tensors out;
    for (const auto i : of_.results) out.push_back(slots_[i].has.here);
    return out;
  }

  /// The values that a step has added which it does not leave for later.
  std::vector<std::uint32_t> at_once(const step& what) const {
    std::vector<std::uint32_t> out;
    if (what.what != step::kind::call || what.later) return out;
    for (std::uint32_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].coming.valid()) out.push_back(i);
    return out;
  }

private:
  struct slot {
    value has;
    future<tensors> coming;
    std::size_t nth = 0;
    bool is_own = false;  // came by value
  };

  void add(const at::Tensor& made) { slots_.emplace_back().has.here = made; }
  void add_reference(const rref<at::Tensor>& made) { slots_.emplace_back().has.there = made; }
  void add_coming(const future<tensors>& made, std::uint32_t block) {
    for (std::size_t i = 0; i < all_.what.blocks[block].results.size(); ++i) {
      auto& one = slots_.emplace_back();
      one.coming = made;
      one.nth = i;
    }
  }

  void call(const step& what) {
    std::optional<at::NoGradGuard> off;
    if (what.how == way::without_gradients) off.emplace();
    std::vector<value> given;
    for (const auto i : what.operands) {
      auto& one = given.emplace_back(slots_[i].has);
      if (one.here.defined()) one.there = {};
    }
    const auto first = slots_[what.operands[0]].has;
    const std::vector<value> rest(given.begin() + 1, given.end());
    const auto which = what.number;
    const bool lends = what.how == way::lent && first.there;
    if (what.how == way::at_owner && what.stays)
      add_reference(first.there.remote<&make_on_own>(all_, which, rest));
    else if (what.how == way::at_owner)
      add_coming(first.there.rpc_async<&run_on_own>(all_, which, rest), which);
    else if (lends && what.stays)
      add_reference(here_.remote<&make_on>(what.where, first.there, all_, which, rest));
    else if (lends && what.coroutine)
      add_coming(here_.rpc_async<&run_on_later>(what.where, first.there, all_, which, rest), which);
    else if (lends)
      add_coming(here_.rpc_async<&run_on>(what.where, first.there, all_, which, rest), which);
    else if (what.how == way::asked)
      add_coming(ask(what, given), which);
    else if (what.how == way::piped && !first.here.defined())
      add_coming(
          here_.rpc_async<&run_on>(what.where, first.there.to_here_async(), all_, which, rest),
          which);
    else if (what.stays && what.coroutine)
      add_reference(here_.remote<&make_block_later>(what.where, all_, which, given));
    else if (what.stays)
      add_reference(here_.remote<&make_block>(what.where, all_, which, given));
    else if (what.coroutine)
      add_coming(here_.rpc_async<&run_block_later>(what.where, all_, which, given), which);
    else
      add_coming(here_.rpc_async<&run_block>(what.where, all_, which, given), which);
  }

  future<tensors> ask(const step& what, std::vector<value>& given) const {
    const auto& whom = all_.actors[what.number];
    if (asked_rank(what, all_.what.nodes) != here_.rank())
      return request(whom, run_of_block{all_, what.number, given});
    // A tensor that stays on the node is the same on both sides: a hook would see the gradients of
    // both.
    for (auto& one : given)
      if (one.here.defined()) one.here = another(one.here);
    return request(whom, run_of_block{all_, what.number, given}).then([](const tensors& made) {
      tensors out;
      for (const auto& one : made) out.push_back(another(one));
      return out;
    });
  }
  static at::Tensor another(const at::Tensor& x) {
    return x.requires_grad() ? at::alias(x) : x.detach();
  }

  const node here_;
  const spread_program& all_;
  const block& of_;
  std::vector<slot> slots_;
};

void wait_for(frame& at, const std::vector<std::uint32_t>& what) {
  for (const auto i : what) {
    if (at.coming(i).valid()) at.has_come(i, at.coming(i).get());
    if (at.must_fetch(i))
      at.has_come(i, at.reference(i).is_owner() ? at.reference(i).local_value()
                                                : at.reference(i).to_here());
  }
}

tensors run_block(const spread_program& of, std::uint32_t which, const std::vector<value>& given) {
  return run_here(this_node(), of, which, given);
}

task<void> await(frame& at, std::vector<std::uint32_t> what) {
  for (const auto i : what) {
    if (const auto coming = at.coming(i); coming.valid()) {
      const tensors values = co_await coming;
      at.has_come(i, values);
    }
    if (at.must_fetch(i)) {
      const auto fetched = at.reference(i).to_here_async();
      const at::Tensor it = co_await fetched;
      at.has_come(i, it);
    }
  }
}

task<tensors> run_block_later(const spread_program& of, std::uint32_t which,
                              const std::vector<value>& given) {
  frame at(this_node(), of, which, given);
  for (const auto& one : at.steps()) {
    // Nothing is made within a co_await's expression: g++ 12 destroys such things twice.
    const auto before = await(at, at.needs(one));
    co_await before;
    at.perform(one);
    const auto after = await(at, at.at_once(one));
    co_await after;
  }
  const auto last = await(at, at.results());
  co_await last;
  co_return at.take_results();
}

tensors run_here(const node& here, const spread_program& of, std::uint32_t which,
                 const std::vector<value>& given) {
  frame at(here, of, which, given);
  for (const auto& one : at.steps()) {
    wait_for(at, at.needs(one));
    at.perform(one);
    wait_for(at, at.at_once(one));
  }
  wait_for(at, at.results());
  return at.take_results();
}

block_actor::behavior_type do_block(block_actor::pointer self, answering how, block_actor next) {
  using promised = caf::typed_response_promise<tensors>;
  return {[=](const run_of_block& what) -> caf::result<tensors> {
    switch (how) {
      case answering::by_value: return run_block(what.of, what.which, what.given);
      case answering::by_promise: {
        auto promise = self->make_response_promise<tensors>();
        [](promised kept, run_of_block all) -> task<> {
          try {
            const auto made = run_block_later(all.of, all.which, all.given);
            const tensors values = co_await made;
            kept.deliver(values);
          } catch (...) {
            kept.deliver(to_caf(describe(std::current_exception(), this_node().name(), {})));
          }
        }(promise, what);
        return promise;
      }
      case answering::by_delegation: return self->delegate(next, what);
      case answering::by_request: {
        auto promise = self->make_response_promise<tensors>();
        self->request(next, caf::infinite, what)
            .then([promise](tensors& made) mutable { promise.deliver(std::move(made)); },
                  [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
        return promise;
      }
    }
    throw std::logic_error("no such way");
  }};
}

}  // namespace

std::vector<block_actor> make_actors(const node& from, const random_program& program) {
  std::vector<block_actor> out(program.blocks.size());
  for (const auto& block : program.blocks)
    for (const auto& one : block.steps) {
      if (one.what != step::kind::call || one.how != way::asked) continue;
      const auto how = answering_of(one);
      const bool passes_on = how == answering::by_delegation || how == answering::by_request;
      const auto worker = passes_on ? answering::by_value : how;
      auto& asked = out[one.number];
      asked = from.spawn_on<do_block>(one.where, worker, block_actor());
      if (passes_on)
        asked = from.spawn_on<do_block>(asked_rank(one, program.nodes), how, block_actor(asked));
    }
  return out;
}

std::vector<at::Tensor> run_main_block(const node& here, const spread_program& program) {
  return run_here(here, program, 0, {});
}

}  // namespace troupe::test
