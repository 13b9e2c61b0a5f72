#pragma once

#include "tests/autograd/spread_run.hpp"

namespace troupe::test {

/// Runs the main block on `here`, and the others where its steps say, by calls. Returns its
/// results.
std::vector<at::Tensor> run_main_block(const node& here, const spread_program& program);

}  // namespace troupe::test
