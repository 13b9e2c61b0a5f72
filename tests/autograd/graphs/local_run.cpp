#include "tests/autograd/graphs/local_run.hpp"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <map>
#include <optional>
#include <set>

#include "tests/autograd/graphs/random_operations.hpp"

namespace troupe::test {

namespace {

using node_set = std::set<const torch::autograd::Node*>;

// A tensor at hand, or on another node, or both.
struct place {
  at::Tensor here{};
  at::Tensor there{};
  std::uint32_t owner = 0;
};

class local_run {
public:
  local_run(const random_program& program, std::vector<at::Tensor> leaves)
      : program_(program), leaves_(std::move(leaves)) {}

  std::vector<at::Tensor> run(std::uint32_t which, std::uint32_t rank, std::vector<place> values) {
    const auto& of = program_.blocks[which];
    for (const auto& one : of.steps) switch (one.what) {
        case step::kind::parameter:
          values.push_back({{}, leaves_[one.number], program_.parameters[one.number].home});
          break;
        case step::kind::operate: {
          std::vector<at::Tensor> xs;
          for (const auto i : one.operands) xs.push_back(fetch(values[i], rank));
          auto made = compute(program_, one, std::move(xs), false);
          values.push_back({std::move(made), {}, 0});
          break;
        }
        case step::kind::call: call(one, rank, values); break;
      }
    std::vector<at::Tensor> out;
    for (const auto i : of.results) out.push_back(fetch(values[i], rank));
    return out;
  }

  /// A node of each message whose tensors require gradients, or several.
  const std::vector<std::vector<torch::autograd::Node*>>& messages() const { return messages_; }

private:
  void call(const step& one, std::uint32_t rank, std::vector<place>& values) {
    std::optional<at::NoGradGuard> off;
    if (one.how == way::without_gradients) {
      off.emplace();
      messages_.emplace_back();  // what the callee sends is recorded, and nothing depends on it
    }
    std::vector<place> given;
    std::vector<std::size_t> sent;  // the places of those that go along
    auto where = one.where;
    for (const auto i : one.operands)
      given.push_back(values[i].here.defined() ? place{values[i].here, {}, 0} : values[i]);
    const auto& first = values[one.operands[0]];
    if (one.how == way::lent && first.there.defined()) {
      given[0] = first;
      given[0].here = at::Tensor();
    } else if (one.how == way::piped && !given[0].here.defined()) {
      auto copy = given[0];
      given[0] = {fetch(copy, rank), {}, 0};
    } else if (one.how == way::at_owner) {
      where = first.owner;
      given[0] = {first.there, {}, 0};
    }
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i].here.defined() && (i > 0 || one.how != way::at_owner)) sent.push_back(i);
    std::vector<at::Tensor> tensors;
    for (const auto i : sent) tensors.push_back(given[i].here);
    tensors = cross(tensors);
    for (std::size_t i = 0; i < sent.size(); ++i) given[sent[i]].here = tensors[i];
    if (one.how == way::lent) fetch(given[0], where);
    auto results = run(one.number, where, std::move(given));
    if (one.stays) return values.push_back({{}, results[0], where});
    for (auto& result : cross(results)) values.push_back({std::move(result), {}, 0});
  }

  at::Tensor fetch(place& one, std::uint32_t rank) {
    if (!one.here.defined()) one.here = one.owner == rank ? one.there : cross({one.there})[0];
    return one.here;
  }

  std::vector<at::Tensor> cross(const std::vector<at::Tensor>& message) {
    std::vector<at::Tensor> out;
    std::vector<torch::autograd::Node*> nodes;
    for (const auto& one : message) {
      out.push_back(one.requires_grad() ? at::alias(one) : one.detach());
      if (out.back().requires_grad()) nodes.push_back(out.back().grad_fn().get());
    }
    if (!nodes.empty()) messages_.push_back(nodes);
    kept_.insert(kept_.end(), out.begin(), out.end());
    return out;
  }

  const random_program& program_;
  const std::vector<at::Tensor> leaves_;
  std::vector<std::vector<torch::autograd::Node*>> messages_;
  std::vector<at::Tensor> kept_;  // so that nodes are not made anew at the same address
};

// All that is reached from the roots, and how many terms the sums have there.
struct reached {
  node_set nodes;
  std::size_t most_terms = 0;

  explicit reached(const std::vector<at::Tensor>& roots) {
    std::map<std::pair<const torch::autograd::Node*, std::uint32_t>, std::size_t> terms;
    std::vector<torch::autograd::Node*> left;
    const auto reach = [&](const torch::autograd::Edge& edge) {
      if (!edge.is_valid()) return;
      most_terms = std::max(most_terms, ++terms[{edge.function.get(), edge.input_nr}]);
      if (nodes.insert(edge.function.get()).second) left.push_back(edge.function.get());
    };
    for (const auto& root : roots) reach(torch::autograd::impl::gradient_edge(root));
    while (!left.empty()) {
      const auto* one = left.back();
      left.pop_back();
      for (const auto& edge : one->next_edges()) reach(edge);
    }
  }
};

}  // namespace

local_result run_locally(const random_program& program, std::vector<at::Tensor> values) {
  local_result out;
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const auto value = i < values.size() ? values[i] : values_of(program, i);
    out.values.push_back(value);
    leaves.push_back(value.clone().requires_grad_(program.parameters[i].trains));
  }
  local_run run(program, leaves);
  std::vector<at::Tensor> roots;
  for (const auto& one : run.run(0, program.starter, {})) {
    roots.push_back(as_root(one));
    out.roots.push_back(roots.back().detach());
  }
  for (const auto& pass : program.passes) {
    std::vector<std::uint32_t> which;
    for (std::uint32_t i = 0; i < pass.size(); ++i)
      if (pass[i] && roots[i].requires_grad()) which.push_back(i);
    if (!which.empty()) out.passes.push_back(which);
  }
  if (out.passes.empty()) throw std::domain_error("nothing requires a gradient");
  for (std::size_t p = 0; p < out.passes.size(); ++p) {
    std::vector<at::Tensor> of;
    for (const auto i : out.passes[p]) of.push_back(roots[i]);
    const reached all(of);
    out.most_terms = std::max(out.most_terms, all.most_terms);
    for (const auto& message : run.messages()) {
      bool used = false;
      for (const auto* one : message) used |= all.nodes.contains(one);
      out.uses_all &= used;
    }
    torch::autograd::backward(of, {}, p + 1 < out.passes.size());
  }
  for (const auto& leaf : leaves) out.gradients.push_back(leaf.grad());
  return out;
}

}  // namespace troupe::test
