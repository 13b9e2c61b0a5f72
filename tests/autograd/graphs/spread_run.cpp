#include "tests/autograd/graphs/spread_run.hpp"

#include "tests/autograd/graphs/random_operations.hpp"
#include "tests/autograd/graphs/spread_blocks.hpp"

namespace troupe::test {

namespace {

using tensors = std::vector<at::Tensor>;

at::Tensor make_parameter(const at::Tensor& value, bool trains) {
  return value.clone().requires_grad_(trains);
}

tensors run_passes(const node& here, const spread_program& program,
                   const std::vector<std::vector<std::uint32_t>>& passes,
                   autograd::pass_mode mode) {
  tensors roots;
  for (const auto& one : run_main_block(here, program)) roots.push_back(as_root(one));
  const auto context = autograd::current_context();
  for (std::size_t p = 0; p < passes.size(); ++p) {
    tensors of;
    for (const auto i : passes[p]) of.push_back(roots[i]);
    autograd::pass_options how;
    how.retain_graph = p + 1 < passes.size();
    how.mode = mode;
    autograd::backward(here, context, of, how);
  }
  for (auto& one : roots) one = one.detach();
  return roots;
}
tensors run_passes_here(const spread_program& program,
                        const std::vector<std::vector<std::uint32_t>>& passes,
                        autograd::pass_mode mode) {
  return run_passes(this_node(), program, passes, mode);
}

at::Tensor gradient_of(at::Tensor& leaf, std::uint64_t context) {
  if (leaf.grad().defined()) throw std::logic_error("a leaf has a .grad");
  try {
    return autograd::get_gradients(this_node(), context)[leaf];
  } catch (const unknown_context&) {
    return {};  // the leaf's node takes no part
  }
}

}  // namespace

spread_program spread(const node& from, const random_program& program,
                      const std::vector<at::Tensor>& values,
                      const std::vector<rref<at::Tensor>>& there) {
  const autograd::within none(0);
  spread_program out{program, there, make_actors(from, program)};
  for (auto i = there.size(); i < values.size(); ++i) {
    const auto& one = program.parameters[i];
    out.parameters.push_back(from.remote<&make_parameter>(one.home, values[i], one.trains));
  }
  return out;
}

std::vector<at::Tensor> run_spread(const node& here, const spread_program& program,
                                   const std::vector<std::vector<std::uint32_t>>& passes,
                                   autograd::pass_mode mode) {
  if (here.rank() == program.what.starter) return run_passes(here, program, passes, mode);
  return here.rpc_sync<&run_passes_here>(program.what.starter, program, passes, mode);
}

future<void> begin_spread(const node& here, const spread_program& program,
                          const std::vector<std::vector<std::uint32_t>>& passes) {
  const auto results = run_main_block(here, program);
  tensors of;
  for (const auto i : passes[0]) of.push_back(as_root(results[i]));
  return autograd::backward_async(here, autograd::current_context(), of);
}

std::vector<at::Tensor> gather_gradients(const spread_program& program, std::uint64_t context) {
  const autograd::within none(0);
  std::vector<future<at::Tensor>> coming;
  for (const auto& one : program.parameters) coming.push_back(one.rpc_async<&gradient_of>(context));
  std::vector<at::Tensor> out;
  for (const auto& one : coming) out.push_back(one.get());
  return out;
}

}  // namespace troupe::test
