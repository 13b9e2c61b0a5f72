#pragma once

#include "tests/autograd/graphs/spread_run.hpp"

namespace troupe::test {

/// The actors that a program asks, by block.
std::vector<block_actor> make_actors(const node& from, const random_program& program);

/// Runs the main block on `here`, and the others where its steps are, by calls and requests.
/// Returns its results.
std::vector<at::Tensor> run_main_block(const node& here, const spread_program& program);

}  // namespace troupe::test
