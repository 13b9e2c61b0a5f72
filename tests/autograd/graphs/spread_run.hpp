#pragma once

#include <troupe/autograd.hpp>

#include "tests/autograd/graphs/program_generator.hpp"

namespace troupe::test {

struct run_of_block;
using block_actor = actor<answers<run_of_block, std::vector<at::Tensor>>>;

/// A program whose parameters live on their nodes.
struct spread_program {
  random_program what;
  std::vector<rref<at::Tensor>> parameters;
  std::vector<block_actor> actors;  ///< by block; null where none is asked
};
TROUPE_MESSAGE(spread_program, what, parameters, actors)

/// A tensor, or a reference to one.
struct value {
  at::Tensor here;
  rref<at::Tensor> there;
};
TROUPE_MESSAGE(value, here, there)

/// What an actor is asked: the results of that block.
struct run_of_block {
  spread_program of;
  std::uint32_t which = 0;
  std::vector<value> given;
};
TROUPE_MESSAGE(run_of_block, of, which, given)

/// Makes the actors, and the parameters, of these values, but for the first ones that there are
/// already.
spread_program spread(const node& from, const random_program& program,
                      const std::vector<at::Tensor>& values,
                      const std::vector<rref<at::Tensor>>& there = {});

/// Runs the main block on `here`, the starter, or has the starter do so, and the passes. Returns
/// the roots. In the calling thread's context.
std::vector<at::Tensor> run_spread(const node& here, const spread_program& program,
                                   const std::vector<std::vector<std::uint32_t>>& passes,
                                   autograd::pass_mode mode);

/// Runs the main block on `here`, and begins the first pass.
future<void> begin_spread(const node& here, const spread_program& program,
                          const std::vector<std::vector<std::uint32_t>>& passes);

/// By parameter, from the nodes that have them; undefined: none. Throws std::logic_error when one
/// has a `.grad`.
std::vector<at::Tensor> gather_gradients(const spread_program& program, std::uint64_t context);

}  // namespace troupe::test
