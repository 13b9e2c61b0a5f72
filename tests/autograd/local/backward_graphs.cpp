#include "tests/autograd/local/backward_graphs.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>

namespace troupe::test {

namespace {

namespace ta = torch::autograd;
using ta::variable_list;

struct two_outputs : ta::Function<two_outputs> {
  static variable_list forward(ta::AutogradContext* ctx, at::Tensor x) {
    const auto y = x.tanh();
    ctx->save_for_backward({y});
    return {x * 2, y};
  }
  static variable_list backward(ta::AutogradContext* ctx, variable_list g) {
    const auto y = ctx->get_saved_variables()[0];
    return {g[0] * 2 + g[1] * (1 - y * y).conj()};
  }
};

struct takes_undefined : ta::Function<takes_undefined> {
  static variable_list forward(ta::AutogradContext* ctx, at::Tensor x, at::Tensor y) {
    ctx->set_materialize_grads(false);
    return {x + y, x - y};
  }
  static variable_list backward(ta::AutogradContext*, variable_list g) {
    at::Tensor x;
    for (const auto& one : g)
      if (one.defined()) x = x.defined() ? x + one : one;
    return {x, g[0].defined() ? g[0] * 1 : at::Tensor()};
  }
};

struct squares_again : ta::Function<squares_again> {
  static at::Tensor forward(ta::AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(ta::AutogradContext* ctx, variable_list g) {
    const at::AutoGradMode on(true);
    const auto x = ctx->get_saved_variables()[0].detach().requires_grad_();
    return ta::grad({x * x}, {x}, {g[0].detach()});
  }
};

struct logs_inputs : ta::FunctionPreHook {
  logs_inputs(std::vector<std::string>& log, std::string what) : log(log), what(std::move(what)) {}
  variable_list operator()(const variable_list& g) override {
    log.push_back(what);
    auto out = g;
    for (auto& one : out)
      if (one.defined()) one = one * 0.75;
    return out;
  }
  std::vector<std::string>& log;
  std::string what;
};

struct logs_outputs : ta::FunctionPostHook {
  logs_outputs(std::vector<std::string>& log, std::string what) : log(log), what(std::move(what)) {}
  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    log.push_back(what + " of " + std::to_string(outputs.size()) + " from " +
                  std::to_string(inputs.size()));
    auto out = outputs;
    for (auto& one : out)
      if (one.defined()) one = one * 1.25;
    return out;
  }
  std::vector<std::string>& log;
  std::string what;
};

class builder {
public:
  builder(std::uint64_t seed, const graph_kind& kind, std::vector<std::string>& log)
      : random_(seed), kind_(kind), log_(log) {
    torch::manual_seed(seed);
  }

  backward_graph build() {
    for (int i = 0; i < 3; ++i) pool_.push_back(leaf({size, size}));
    row_ = leaf({size});
    scalar_ = leaf({});
    table_ = leaf({6, size});
    for (int i = 0; i < kind_.operations; ++i) {
      auto made = grown();
      if (one_in(3)) made = made * 0.5;
      watch(made);
      pool_.push_back(std::move(made));
    }
    for (const auto& one : graph_.leaves) watch_leaf(one);
    choose_roots();
    return std::move(graph_);
  }

private:
  static constexpr std::int64_t size = 4;

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  bool is_complex() const { return at::isComplexType(kind_.dtype); }

  at::Tensor values(at::IntArrayRef shape) {
    const auto wide = is_complex() ? at::kComplexDouble : at::kDouble;
    return (torch::randn(shape, wide) * 0.5).to(kind_.dtype);
  }
  at::Tensor leaf(at::IntArrayRef shape) {
    graph_.leaves.push_back(values(shape).requires_grad_());
    return graph_.leaves.back();
  }
  const at::Tensor& any() { return pool_[below(static_cast<int>(pool_.size()))]; }
  at::Tensor places() { return torch::randint(0, size, {size}, at::kLong); }

  at::Tensor grown() {
    const auto& x = any();
    const auto& y = any();
    switch (below(kind_.smooth ? 15 : 23)) {
      case 0: return x + y;
      case 1: return x * y;
      case 2: return torch::matmul(x, y) * 0.3;
      case 3: return x.tanh();
      case 4: return x.t();
      case 5: return torch::cat({x.slice(0, 0, 1), y.slice(0, 1)});
      case 6: return x.index_select(0, places());
      case 7: return x + row_;
      case 8: return x * scalar_;
      case 9: return two_outputs::apply(x)[below(2)];
      case 10: return (x - y).contiguous().view({-1}).view({size, size});
      case 11: return torch::stack({x, y, any()}).unbind(0)[below(3)];  // the others unused
      case 12: return x + y.sum() * 0.1;
      case 13: return torch::matmul(x, any()).sigmoid();
      case 14: return torch::einsum("ij,kj->ik", {x, y}) * 0.25;
      case 15: {
        auto z = x.clone();
        z.mul_(y);
        z.select(0, below(size)).add_(row_);
        return z;
      }
      case 16: {
        auto z = torch::zeros_like(x, at::MemoryFormat::Contiguous);
        z.narrow(1, 1, 2).copy_(y.narrow(1, 0, 2));
        return z.add_(x);
      }
      case 17: {
        // libtorch adds no sparse half on the CPU.
        const bool has_sparse = kind_.dtype != at::kHalf;
        const auto wanted = torch::randint(0, 6, {size}, at::kLong);
        return is_complex() ? table_.index_select(0, wanted)
                            : torch::embedding(table_, wanted, -1, false, has_sparse);
      }
      case 18:
        return is_complex() ? torch::complex(torch::real(x), torch::imag(y))
                            : torch::dropout(x, 0.3, true);
      case 19: {
        const auto z = takes_undefined::apply(x, y);
        return z[below(2)];
      }
      case 20: return squares_again::apply(x);
      case 21: return is_complex() ? x.conj() * y : x.clone().relu_();
      default: {
        const auto parts = table_.chunk(3);  // dense, where embedding's are sparse
        return x + parts[below(3)].sum(0);
      }
    }
  }

  std::string name(const char* what) { return std::string(what) + " " + std::to_string(hooks_++); }

  void watch(const at::Tensor& t) {
    if (!t.requires_grad() || t.is_leaf()) return;
    if (one_in(5))
      t.register_hook([&log = log_, n = name("seen")](at::Tensor) { log.push_back(n); });
    if (one_in(5))
      t.register_hook([&log = log_, n = name("replaced")](at::Tensor g) {
        log.push_back(n);
        return g.defined() ? g * 0.5 : g;
      });
    if (one_in(6)) {
      t.retain_grad();
      graph_.retained.push_back(t);
    }
    const auto node = t.grad_fn();
    if (one_in(6)) node->add_pre_hook(std::make_unique<logs_inputs>(log_, name("pre")));
    if (one_in(6)) node->add_post_hook(std::make_unique<logs_outputs>(log_, name("post")));
  }

  void watch_leaf(const at::Tensor& t) {
    if (one_in(2))
      t.register_hook([&log = log_, n = name("leaf"), half = one_in(2)](at::Tensor g) {
        log.push_back(n);
        return half && g.defined() ? g * 0.5 : g;
      });
    if (kind_.smooth || !one_in(3)) return;
    const auto node = ta::impl::grad_accumulator(t);
    node->add_pre_hook(std::make_unique<logs_inputs>(log_, name("accumulator pre")));
    node->add_post_hook(std::make_unique<logs_outputs>(log_, name("accumulator post")));
    graph_.accumulators.push_back(node);
  }

  void choose_roots() {
    auto add = [this](const at::Tensor& root) {
      graph_.roots.push_back(root);
      graph_.gradients.push_back(values(root.sizes()));
    };
    add(pool_.back());
    for (int i = 1 + below(4); i > 0; --i) add(any());  // also a leaf, or one of them twice
    if (!one_in(2)) return;
    const auto parts = torch::stack({any(), any(), any()}).unbind(1);
    add(parts[0]);
    add(parts[2]);
  }

  std::mt19937_64 random_;
  const graph_kind kind_;
  std::vector<std::string>& log_;
  backward_graph graph_;
  std::vector<at::Tensor> pool_;
  at::Tensor row_, scalar_, table_;
  int hooks_ = 0;
};

std::mutex called_mutex;
std::vector<std::string> called;

}  // namespace

ta::edge_list backward_graph::edges() const {
  ta::edge_list out;
  for (const auto& root : roots) out.push_back(ta::impl::gradient_edge(root));
  return out;
}

autograd::backward_plan backward_graph::plan(bool grouped) const {
  autograd::backward_plan out;
  const auto all = edges();
  for (std::size_t i = 0; i < all.size(); ++i) {
    autograd::entry from{all[i].function, {all[i].input_nr}};
    while (grouped && i + 1 < all.size() && all[i + 1].function == from.node)
      from.inputs.push_back(all[++i].input_nr);
    out.add(std::move(from));
  }
  return out;
}

std::vector<std::vector<at::Tensor>> backward_graph::arrivals(bool grouped) const {
  std::vector<std::vector<at::Tensor>> out;
  auto next = gradients.begin();
  const auto planned = plan(grouped);
  for (const auto& at : planned.entries()) {
    out.emplace_back(next, next + static_cast<std::ptrdiff_t>(at.inputs.size()));
    next += static_cast<std::ptrdiff_t>(at.inputs.size());
  }
  return out;
}

backward_graph random_graph(std::uint64_t seed, const graph_kind& kind,
                            std::vector<std::string>& log) {
  return builder(seed, kind, log).build();
}

leaf_gradients engine_backward(const backward_graph& graph,
                               const autograd::backward_options& options) {
  for (auto leaf : graph.leaves) leaf.mutable_grad().reset();
  ta::Engine::get_default_engine().execute(graph.edges(), graph.gradients, options.keep_graph,
                                           options.create_graph, true);
  leaf_gradients out;
  for (auto leaf : graph.leaves) {
    out.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  return out;
}

autograd::gradient_sink sink_into(leaf_gradients& into, const std::vector<at::Tensor>& leaves) {
  into.assign(leaves.size(), {});
  return [&into, leaves](const at::Tensor& leaf, at::Tensor gradient) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!leaf.is_same(leaves[i])) continue;
      EXPECT_FALSE(into[i].defined()) << "leaf " << i << " twice";
      EXPECT_TRUE(gradient.defined());
      into[i] = std::move(gradient);
      return;
    }
    ADD_FAILURE() << "the gradient of no leaf";
  };
}

leaf_gradients executor_backward(const backward_graph& graph, bool grouped,
                                 const autograd::backward_options& options) {
  leaf_gradients out;
  autograd::executor pass(graph.plan(grouped), options, sink_into(out, graph.leaves));
  std::size_t nr = 0;
  for (auto& gradients : graph.arrivals(grouped)) pass.arrive(nr++, std::move(gradients));
  EXPECT_TRUE(pass.awaited().empty());
  EXPECT_TRUE(pass.run());
  for (const auto& leaf : graph.leaves) EXPECT_FALSE(leaf.grad().defined());
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.layout() != b.layout())
    return false;
  if (a.is_sparse())
    return a.is_coalesced() == b.is_coalesced() && same_bits(a._indices(), b._indices()) &&
           same_bits(a._values(), b._values());
  const auto x = a.detach().resolve_conj().resolve_neg().contiguous();
  const auto y = b.detach().resolve_conj().resolve_neg().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() && !b.defined()) return 0;
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes())
    return std::numeric_limits<double>::infinity();
  const auto wide = [](const at::Tensor& t) {
    const auto dense = t.detach().is_sparse() ? t.detach().to_dense() : t.detach();
    return dense.to(t.is_complex() ? at::kComplexDouble : at::kDouble);
  };
  const auto apart = (wide(a) - wide(b)).norm().abs().item<double>();
  const auto length = wide(b).norm().abs().item<double>();
  return apart == 0 ? 0 : apart / length;
}

called_nodes::called_nodes() {
  const std::lock_guard lock(called_mutex);
  called.clear();
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& f)
                                     -> std::unique_ptr<at::ObserverContext> {
        const std::string name = f.name();
        static const std::vector<std::string> of_one = {
            "torch::autograd::AccumulateGrad", "torch::autograd::GraphRoot", "troupe::entrance"};
        const std::lock_guard lock(called_mutex);
        if (std::find(of_one.begin(), of_one.end(), name) == of_one.end()) called.push_back(name);
        return nullptr;
      }).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

called_nodes::~called_nodes() { at::removeCallback(handle_); }

std::vector<std::string> called_nodes::names() const {
  const std::lock_guard lock(called_mutex);
  return called;
}

}  // namespace troupe::test
