#pragma once

#include <cstdint>
#include <troupe/troupe.hpp>
#include <vector>

// Random programs over several nodes, as data: the same one runs on one thread, or spread over the
// nodes by calls.
namespace troupe::test {

/// What a step computes from its operands, all of them of a shape that expands to the program's
/// square. `random_operations` has the formulas.
enum class operation : std::uint8_t {
  average,
  product,
  difference,
  matrix_product,
  tanh,
  sine,
  transpose,     // a view
  rows,          // a view
  column,        // a view
  expand,        // a view
  mean,          // a scalar
  join,          // rows of one and of the other
  take_apart,    // an operation of several outputs
  write,         // in place, into something fresh
  write_part,    // in place, into a view of something fresh
  write_first,   // in place, into the first argument of the block
  embed,         // of a table; its gradient is sparse or dense
  embed_sparse,  //
  table_mean,    // of a table; its gradient is dense
  stop,          // one factor gets no gradient
  custom,        // a torch::autograd::Function
  hook,          // on something fresh
  hook_here,     // on the operand itself
  convert,       // to another dtype
  conjugate,     // lazily; of complex numbers
  swap_parts,    // real and imaginary, of complex numbers
};

/// How a step calls a block.
enum class way : std::uint8_t {
  values,             ///< tensors, and references where that is what there is
  lent,               ///< the callee fetches the first argument from its owner
  piped,              ///< the first argument is a future
  at_owner,           ///< on the owner of the first argument, with the value itself
  without_gradients,  ///< under a NoGradGuard
  asked,              ///< of an actor, which answers as `detail` asks
};

/// How an actor comes to the results of a block.
enum class answering : std::uint8_t {
  by_value,       ///< at once
  by_promise,     ///< when a coroutine is done with it
  by_delegation,  ///< another actor does it, on the step's node
  by_request,     ///< another one does, and is asked by CAF's own means
};

/// One value more, or the results of a call or request.
struct step {
  enum class kind : std::uint8_t { parameter, operate, call };
  kind what = kind::operate;
  std::vector<std::uint32_t> operands;  ///< values of the block so far: its arguments are the first
  operation op = operation::average;
  std::uint32_t detail = 0;  ///< of the operation; of an actor, which `answering` and on which node
  std::uint32_t number = 0;  ///< of the parameter or the block
  std::uint32_t where = 0;   ///< rank
  way how = way::values;
  bool coroutine = false;  ///< the callee is one
  bool later = false;      ///< the caller goes on meanwhile
  bool stays = false;      ///< the result is a reference to where it was made
};
TROUPE_MESSAGE(step, what, operands, op, detail, number, where, how, coroutine, later, stays)

/// Of a step that asks an actor.
inline answering answering_of(const step& one) { return static_cast<answering>(one.detail % 4); }
/// The node of the actor that is asked: the step's own where it does the work itself.
inline std::uint32_t asked_rank(const step& one, std::uint32_t nodes) {
  const auto how = answering_of(one);
  const bool passes_on = how == answering::by_delegation || how == answering::by_request;
  return passes_on ? one.detail / 4 % nodes : one.where;
}

struct block {
  std::uint32_t arguments = 0;
  std::vector<step> steps;
  std::vector<std::uint32_t> results;
};
TROUPE_MESSAGE(block, arguments, steps, results)

/// A leaf.
struct parameter {
  std::uint32_t home = 0;  ///< rank
  std::vector<std::int64_t> shape;
  bool trains = true;
  bool is_table = false;
};
TROUPE_MESSAGE(parameter, home, shape, trains, is_table)

struct random_program {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 2;
  std::int8_t dtype = 0;  ///< a c10::ScalarType
  std::int64_t size = 3;  ///< of the square
  std::vector<parameter> parameters;
  std::vector<block> blocks;              ///< the first is the main one, whose results become roots
  std::uint32_t opener = 0;               ///< of the context: a rank
  std::uint32_t starter = 0;              ///< of main block and passes
  std::vector<std::vector<bool>> passes;  ///< which roots each has
};
TROUPE_MESSAGE(random_program, seed, nodes, dtype, size, parameters, blocks, opener, starter,
               passes)

struct program_kind {
  std::uint32_t nodes = 2;
  /// No value is used more than twice, so that the order of sums does not matter.
  bool few_uses = false;
  /// Roots depend on whatever is sent.
  bool thrifty = false;
  /// Its parameters are other programs' too.
  bool shares = false;
};

/// The same for the same seed. `given`: parameters to use; further ones may be added.
random_program make_program(std::uint64_t seed, std::int8_t dtype, const program_kind& kind,
                            std::vector<parameter> given = {});

}  // namespace troupe::test
