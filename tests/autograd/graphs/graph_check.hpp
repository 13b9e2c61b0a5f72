#pragma once

#include <functional>

#include "tests/autograd/graphs/local_run.hpp"
#include "tests/autograd/graphs/spread_run.hpp"

namespace troupe::test {

/// A program and what it computes on one thread.
struct graph_case {
  random_program program;
  local_result wanted;
  /// The order of sums does not matter: none has more than two terms, nor depends on a layout.
  bool exact = false;
};

/// The seed decides the dtype, too. `nodes`: at the most.
graph_case make_case(std::uint64_t seed, std::uint32_t nodes = 5);

/// The same over parameters that it shares with other programs.
graph_case make_case(std::uint64_t seed, const random_program& shared,
                     const std::vector<at::Tensor>& values);

/// What is not as it must be.
using complaints = std::vector<std::string>;

/// Are these the gradients? To the last bit where the case is exact, else to 1e-6 of their length.
complaints compare(const graph_case& wanted, const std::vector<at::Tensor>& roots,
                   const std::vector<at::Tensor>& gradients);

/// Runs it in a context of its own over those parameters, on nodes by rank.
complaints run_and_compare(const std::vector<node>& nodes, const graph_case& one,
                           const spread_program& program, autograd::pass_mode mode);

/// The same with parameters of its own, in both modes; then nothing may be left on any node.
/// `wait` looks for a condition again and again, and returns whether it came.
using waiter = std::function<bool(const std::function<bool()>&)>;
complaints check_case(const std::vector<node>& nodes, const graph_case& one, const waiter& wait);

/// No context, pass, rref or call.
complaints nothing_left(const std::vector<node>& nodes, const waiter& wait);

}  // namespace troupe::test
