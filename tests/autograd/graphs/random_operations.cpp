#include "tests/autograd/graphs/random_operations.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

namespace troupe::test {

namespace {

struct half_square : torch::autograd::Function<half_square> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * 0.5;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    return {g[0] * ctx->get_saved_variables()[0].conj()};
  }
};

at::Tensor hooked(at::Tensor x) {
  if (x.requires_grad())
    // Hooks of tensors that came in one message are also called with an undefined gradient.
    x.register_hook([](const at::Tensor& g) { return g.defined() ? g * 0.75 : g; });
  return x;
}

at::Tensor embed(const at::Tensor& table, std::int64_t seed, bool sparse) {
  // No row twice, so that a gradient has no sums of its own.
  const auto rows = table.size(0);
  const auto which = (torch::arange(table.size(1), at::kLong) * (rows == 5 ? 2 : 3) + seed) % rows;
  if (table.is_complex()) return table.index_select(0, which);
  return torch::embedding(table, which, -1, false, sparse);
}

}  // namespace

at::Tensor compute(const random_program& program, const step& what, std::vector<at::Tensor> xs,
                   bool owns_first) {
  const auto n = program.size;
  const auto at = static_cast<std::int64_t>(what.detail) % n;
  const auto dtype = static_cast<at::ScalarType>(program.dtype);
  const auto wide = [&](std::size_t i) { return xs[i].expand({n, n}); };
  const auto own = [&](std::size_t i) { return wide(i).to(dtype) * 0.5; };
  const auto& x = xs[0];
  switch (what.op) {
    case operation::average: return (x + xs[1]) * 0.5;
    case operation::product: return x * xs[1];
    case operation::difference: return (x - xs[1]) * 0.5;
    case operation::matrix_product:
      return torch::mm(wide(0).to(dtype), wide(1).to(dtype)) / static_cast<double>(n);
    case operation::tanh: return x.tanh();
    case operation::sine: return x.sin();
    case operation::transpose: return wide(0).t();
    case operation::rows: return wide(0).slice(0, at, at + 1);
    case operation::column: return wide(0).select(1, at);
    case operation::expand: return wide(0);
    case operation::mean: return x.mean();
    case operation::join: return torch::cat({wide(0).slice(0, 0, at), wide(1).slice(0, at, n)});
    case operation::take_apart: {
      auto parts = wide(0).unbind(0);
      parts[0] = parts[0] * parts[static_cast<std::size_t>(n) - 1];
      parts.pop_back();
      parts.push_back(parts[1] * 0.5);
      return torch::stack(parts);
    }
    case operation::write: {
      auto fresh = own(0);
      return fresh.mul_(wide(1).to(dtype));
    }
    case operation::write_part: {
      auto fresh = own(0);
      fresh.select(0, at).mul_(-0.5);
      fresh.t().slice(0, at, at + 1).tanh_();
      return fresh;
    }
    case operation::write_first: {
      auto first = owns_first ? x : x.clone();
      return first.mul_(0.75);
    }
    case operation::embed: return embed(x, at, false);
    case operation::embed_sparse: return embed(x, at, true);
    case operation::table_mean: return x.mean(0);
    case operation::stop: return x * xs[1].detach();
    case operation::custom: return half_square::apply(x);
    case operation::hook: return hooked(x * 0.5) * 0.5;
    case operation::hook_here: return hooked(x) * 0.5;
    case operation::convert: {
      constexpr at::ScalarType wider[] = {at::kDouble, at::kFloat};
      const auto to = wider[what.detail % 2];
      return x.to(c10::isComplexType(dtype) ? c10::toComplexType(to) : to).sin();
    }
    case operation::conjugate: return x.conj();
    case operation::swap_parts: return torch::complex(torch::imag(x), torch::real(x));
  }
  throw std::logic_error("no such operation");
}

at::Tensor as_root(const at::Tensor& result) {
  return (result.is_complex() ? torch::real(result) : result).sum();
}

at::Tensor values_of(const random_program& program, std::size_t parameter) {
  const auto dtype = static_cast<at::ScalarType>(program.dtype);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(program.seed * 131 + parameter);
  const auto wide = c10::isComplexType(dtype) ? at::kComplexDouble : at::kDouble;
  const auto& shape = program.parameters[parameter].shape;
  return (torch::randn(shape, generator, wide) * 0.5).to(dtype);
}

}  // namespace troupe::test
