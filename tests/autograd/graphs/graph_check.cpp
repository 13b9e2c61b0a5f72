#include "tests/autograd/graphs/graph_check.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include "tests/autograd/graphs/program_traits.hpp"
#include "tests/autograd/graphs/random_operations.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::test {

namespace {

constexpr at::ScalarType dtypes[] = {at::kDouble, at::kDouble,   at::kComplexDouble, at::kFloat,
                                     at::kHalf,   at::kBFloat16, at::kComplexFloat,  at::kDouble};

// Only where a sum in another order is nearly the same.
bool has_many_digits(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kComplexDouble;
}

at::Tensor dense(const at::Tensor& x) { return x.is_sparse() ? x.to_dense() : x; }

at::Tensor wide(const at::Tensor& x) {
  return dense(x).to(x.is_complex() ? at::kComplexDouble : at::kDouble).resolve_conj();
}

double length(const at::Tensor& x) { return x.norm().item<double>(); }

graph_case first_good(std::uint64_t seed, std::int8_t dtype, program_kind kind,
                      const std::vector<parameter>& given, const std::vector<at::Tensor>& values) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    graph_case out;
    out.program = make_program(seed * 1000 + attempt, dtype, kind, given);
    try {
      auto all = values;
      for (auto i = all.size(); i < out.program.parameters.size(); ++i)
        all.push_back(values_of(out.program, i));
      out.wanted = run_locally(out.program, all);
    } catch (const std::domain_error&) {
      continue;
    }
    if (kind.few_uses && out.wanted.most_terms > 2) continue;
    out.exact = out.wanted.most_terms <= 2 && !has(out.program, operation::transpose);
    return out;
  }
}

}  // namespace

graph_case make_case(std::uint64_t seed, std::uint32_t nodes) {
  const auto dtype = dtypes[seed % std::size(dtypes)];
  program_kind kind;
  kind.nodes = 2 + static_cast<std::uint32_t>(seed / 2 % (nodes - 1));
  kind.thrifty = seed / 3 % 2 == 0;
  kind.few_uses = !has_many_digits(dtype) || seed % 3 == 0;
  return first_good(seed, static_cast<std::int8_t>(dtype), kind, {}, {});
}

graph_case make_case(std::uint64_t seed, const random_program& shared,
                     const std::vector<at::Tensor>& values) {
  program_kind kind;
  kind.nodes = shared.nodes;
  kind.thrifty = seed % 2 == 0;
  kind.shares = true;
  return first_good(seed, shared.dtype, kind, shared.parameters, values);
}

complaints compare(const graph_case& wanted, const std::vector<at::Tensor>& roots,
                   const std::vector<at::Tensor>& gradients) {
  complaints out;
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (!torch::equal(roots[i], wanted.wanted.roots[i]))
      out.push_back(fmt::format("root {} is {} instead of {}", i, roots[i].item().toDouble(),
                                wanted.wanted.roots[i].item().toDouble()));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& right = wanted.wanted.gradients[i];
    const auto& got = gradients[i];
    // A message brings gradients for all of its tensors or for none, and undefined ones may become
    // zeros on the way.
    if (!right.defined() || !got.defined()) {
      const auto& other = right.defined() ? right : got;
      if (other.defined() && dense(other).count_nonzero().item<std::int64_t>() != 0)
        out.push_back(fmt::format("parameter {} has {} gradient", i, got.defined() ? "a" : "no"));
      continue;
    }
    if (got.scalar_type() != right.scalar_type() || got.sizes() != right.sizes()) {
      out.push_back(fmt::format("the gradient of parameter {} has another type or shape", i));
      continue;
    }
    // A second pass' rows come after the first's, which is an order of sums, too.
    const bool ordered = wanted.exact && !(wanted.wanted.passes.size() > 1 &&
                                           (right.is_sparse() || got.is_sparse()));
    const bool same = torch::equal(dense(got), dense(right));
    if (same) continue;
    // Where terms of a sum cancel each other out, what is left has the rounding errors of these,
    // which are about as large as 1.
    const auto all = length(wide(right)), off = length(wide(got) - wide(right));
    if (ordered || !(off <= 1e-6 * all + 1e-13))
      out.push_back(fmt::format("the gradient of parameter {}, of length {}, is off by {}{}", i,
                                all, off, ordered ? ", where all bits must be the same" : ""));
  }
  return out;
}

complaints run_and_compare(const std::vector<node>& nodes, const graph_case& one,
                           const spread_program& program, autograd::pass_mode mode) {
  const auto& here = nodes[one.program.opener];
  const autograd::context context(here);
  const auto roots = run_spread(here, program, one.wanted.passes, mode);
  auto out = compare(one, roots, gather_gradients(program, context.id()));
  for (auto& what : out) what += mode == autograd::pass_mode::smart ? " (smart)" : " (fast)";
  return out;
}

complaints check_case(const std::vector<node>& nodes, const graph_case& one, const waiter& wait) {
  complaints out;
  const auto note = [&](const complaints& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  for (const auto mode : {autograd::pass_mode::smart, autograd::pass_mode::fast}) {
    const auto program = spread(nodes[one.program.opener], one.program, one.wanted.values);
    const bool fast = mode == autograd::pass_mode::fast;
    try {
      note(run_and_compare(nodes, one, program, mode));
    } catch (const error& e) {
      // The only way in which a fast pass may end that cannot be completed.
      const bool advised = std::string_view(e.what()).find("pass_mode::smart") != std::string::npos;
      if (!fast || one.wanted.uses_all || !advised)
        out.push_back(fmt::format("{}: {}", fast ? "fast" : "smart", e.what()));
    }
  }
  note(nothing_left(nodes, wait));
  return out;
}

complaints nothing_left(const std::vector<node>& nodes, const waiter& wait) {
  complaints out;
  for (const auto& n : nodes) {
    debug_info left;
    const auto clean = [&] {
      left = n.debug_info();
      return left.autograd_contexts == 0 && left.backward_passes == 0 && left.owner_rrefs == 0 &&
             left.user_rrefs == 0 && left.rref_forks == 0 && left.calls_in_flight == 0 &&
             left.calls_served == 0;
    };
    if (!wait(clean))
      out.push_back(
          fmt::format("{} is left with {} contexts, {} passes, {} values, {} references, "
                      "{} on their way, {} calls, {} to be answered",
                      n.name(), left.autograd_contexts, left.backward_passes, left.owner_rrefs,
                      left.user_rrefs, left.rref_forks, left.calls_in_flight, left.calls_served));
  }
  return out;
}

}  // namespace troupe::test
