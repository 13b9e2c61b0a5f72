// Nodes that are called in two parts: first for the gradients that another node waits for.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/autograd/graphs/received.hpp"
#include "tests/autograd/local/backward_graphs.hpp"
#include "troupe/autograd/local/executor.hpp"

namespace troupe::test {
namespace {

namespace ta = torch::autograd;
using autograd::backward_error;
using autograd::executor;
using steps = std::vector<std::string>;
using ta::variable_list;

at::Tensor weights(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return (torch::randn(sizes) * 0.1).to(dtype).requires_grad_();
}

// A leaf's, or of the message's, name for each gradient that comes out, in their order.
struct journal {
  steps lines;
  std::map<at::TensorImpl*, std::string> names;
  std::map<std::string, at::Tensor> gradients;

  autograd::gradient_sink sink() {
    return [this](const at::Tensor& leaf, at::Tensor gradient) {
      lines.push_back(names.at(leaf.unsafeGetTensorImpl()));
      gradients[lines.back()] = std::move(gradient);
    };
  }
  void observe(const received& message) {
    message.node->when_called = [this] { lines.push_back("message"); };
  }
  void run(const std::vector<at::Tensor>& roots, const autograd::backward_options& how = {}) {
    executor pass(plan_of(roots), how, sink());
    for (std::size_t i = 0; i < roots.size(); ++i) pass.arrive(i, {torch::ones_like(roots[i])});
    EXPECT_TRUE(pass.run());
  }
};

// Two layers of `width` over a message of as many rows.
struct two_layers {
  explicit two_layers(std::int64_t width = 192)
      : message(torch::randn({width, width})), u(weights({width, width})), v(u.clone()) {
    v = weights({width, width});
    log.names = {{u.unsafeGetTensorImpl(), "u"}, {v.unsafeGetTensorImpl(), "v"}};
    log.observe(message);
    hidden = message.tensor.mm(u).tanh();
    out = hidden.mm(v.t());
  }
  // The same of libtorch's engine.
  std::vector<at::Tensor> wanted() const {
    const auto x = message.tensor.detach().clone().requires_grad_();
    return ta::grad({x.mm(u).tanh().mm(v.t())}, {x, u, v}, {torch::ones_like(out)});
  }
  void expect_wanted() const {
    const auto all = wanted();
    EXPECT_TRUE(same_bits(message.node->got.at(0), all[0]));
    EXPECT_TRUE(same_bits(log.gradients.at("u"), all[1]));
    EXPECT_TRUE(same_bits(log.gradients.at("v"), all[2]));
  }

  received message;
  at::Tensor u, v, hidden, out;
  journal log;
};

TEST(split_nodes, send_gradients_before_they_make_those_of_weights) {
  two_layers it;
  it.log.run({it.out});
  EXPECT_EQ(it.log.lines, (steps{"message", "v", "u"}));
  it.expect_wanted();
}

TEST(split_nodes, are_none_where_products_are_small) {
  two_layers it(32);
  it.log.run({it.out});
  EXPECT_EQ(it.log.lines, (steps{"v", "message", "u"}));
  it.expect_wanted();
}

TEST(split_nodes, are_none_where_nobody_waits) {
  two_layers it;
  const auto x = weights({192, 192});
  it.log.names[x.unsafeGetTensorImpl()] = "x";
  it.log.run({x.mm(it.u).tanh().mm(it.v)});
  const auto v = std::find(it.log.lines.begin(), it.log.lines.end(), "v");
  EXPECT_EQ(v, it.log.lines.begin()) << "as soon as the engine would";
  EXPECT_EQ(it.log.lines.size(), 3u);
}

TEST(split_nodes, are_none_on_ways_to_leaves_only) {
  two_layers it;
  const auto x = weights({192, 192});
  const auto w = weights({192, 192});
  it.log.names[x.unsafeGetTensorImpl()] = "x";
  it.log.names[w.unsafeGetTensorImpl()] = "w";
  const auto beside = x.mm(w).tanh().mm(w);  // no other node waits for it
  it.log.run({it.out + beside});
  EXPECT_EQ(it.log.lines.size(), 5u);
  const auto at = [&](const char* name) {
    return std::find(it.log.lines.begin(), it.log.lines.end(), name);
  };
  EXPECT_LT(at("w"), at("message")) << "made last, so it runs first";
  EXPECT_LT(at("message"), at("v"));
}

// Of one weight that many products share, split ones and others.
TEST(split_nodes, leave_the_order_of_sums_as_it_is) {
  for (int turn = 0; turn < 20; ++turn) {
    const auto w = weights({192, 192});
    const auto through = [&](const at::Tensor& x) {
      const auto once = x.mm(w).tanh();
      const auto twice = once.mm(w.t()).relu() + (w * 3).tanh();
      const auto small = x.slice(0, 0, 4).mm(w).sum();
      return twice.mm(w) + at::linear(once, w) + (w * 3) + small;
    };
    const received message(torch::randn({192, 192}));
    journal log;
    log.observe(message);
    log.names = {{w.unsafeGetTensorImpl(), "w"}};
    log.run({through(message.tensor)});
    EXPECT_EQ(log.lines, (steps{"message", "w"}));
    const auto x = message.tensor.detach().clone().requires_grad_();
    const auto wanted = ta::grad({through(x)}, {x, w}, {torch::ones({192, 192})});
    EXPECT_TRUE(same_bits(message.node->got.at(0), wanted[0]));
    EXPECT_TRUE(same_bits(log.gradients.at("w"), wanted[1]));
  }
}

// As in a pipeline: the same layers for one message after the other.
TEST(split_nodes, come_first_for_each_of_many_messages) {
  const auto u = weights({192, 192}), v = weights({192, 192});
  journal log;
  log.names = {{u.unsafeGetTensorImpl(), "u"}, {v.unsafeGetTensorImpl(), "v"}};
  const auto through = [&](const at::Tensor& x) {
    const auto of_u = u.t();
    of_u.register_hook([&](const at::Tensor&) { log.lines.push_back("part of u"); });
    const auto first = x.mm(of_u).relu();
    const auto of_v = v.t();
    of_v.register_hook([&](const at::Tensor&) { log.lines.push_back("part of v"); });
    return first.mm(of_v);
  };
  std::vector<received> messages;
  std::vector<at::Tensor> xs, roots, wanted_roots, ones;
  for (int i = 0; i < 3; ++i) {
    messages.emplace_back(torch::randn({128, 192}));
    log.observe(messages.back());
    xs.push_back(messages.back().tensor.detach().clone().requires_grad_());
    roots.push_back(through(messages.back().tensor));
    ones.push_back(torch::ones_like(roots.back()));
  }
  const steps parts{"part of v", "part of u"};
  steps expected(3, "message");
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), parts.begin(), parts.end());
  expected.insert(expected.end() - 1, "v");
  expected.push_back("u");
  log.run(roots);
  EXPECT_EQ(log.lines, expected);
  for (const auto& x : xs) wanted_roots.push_back(through(x));
  const auto wanted = ta::grad(wanted_roots, {u, v}, ones);
  EXPECT_TRUE(same_bits(log.gradients.at("u"), wanted[0]));
  EXPECT_TRUE(same_bits(log.gradients.at("v"), wanted[1]));

  std::vector<at::Tensor> again;
  for (auto& one : messages) again.push_back(through(one.tensor));
  executor pass(plan_of(again), {}, log.sink());
  for (std::size_t i = 0; i < again.size(); ++i) {
    log.lines.clear();
    pass.arrive(i, {ones[i]});
    EXPECT_EQ(pass.run(), i == 2);
    EXPECT_EQ(messages[i].node->calls, 2);
    expected = {"message", "part of v", "part of u"};
    if (i == 2) expected = {"message", "part of v", "v", "part of u", "u"};
    EXPECT_EQ(log.lines, expected) << "arrival " << i;
  }
}

TEST(split_nodes, call_hooks_of_tensors_once) {
  two_layers it;
  int calls = 0;
  it.out.register_hook([&](const at::Tensor& g) {
    ++calls;
    return g * 2;
  });
  it.hidden.retain_grad();
  it.log.run({it.out});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(it.log.lines[0], "message");
  EXPECT_TRUE(it.hidden.grad().defined());
  EXPECT_TRUE(same_bits(it.log.gradients.at("v"), it.wanted()[2] * 2)) << "of powers of two";
}

struct counts_calls : ta::FunctionPostHook {
  explicit counts_calls(int& calls) : calls_(calls) {}
  ta::variable_list operator()(const ta::variable_list& outputs,
                               const ta::variable_list& inputs) override {
    ++calls_;
    EXPECT_EQ(outputs.size(), 2u);
    for (const auto& one : outputs) EXPECT_TRUE(one.defined());
    EXPECT_EQ(inputs.size(), 1u);
    return outputs;
  }
  int& calls_;
};

TEST(split_nodes, are_none_where_the_node_has_hooks) {
  two_layers it;
  int calls = 0;
  it.out.grad_fn()->add_post_hook(std::make_unique<counts_calls>(calls));
  it.log.run({it.out});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(it.log.lines, (steps{"v", "message", "u"}));
  it.expect_wanted();
}

struct counts_unpacking : ta::SavedVariableHooks {
  explicit counts_unpacking(int& calls) : calls_(calls) {}
  void call_pack_hook(const at::Tensor& tensor) override { kept_ = tensor; }
  at::Tensor call_unpack_hook() override {
    ++calls_;
    return kept_;
  }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }
  int& calls_;
  at::Tensor kept_;
};

TEST(split_nodes, unpack_once_where_that_calls_a_hook) {
  two_layers it;
  int calls = 0;
  auto& node = dynamic_cast<ta::generated::MmBackward0&>(*it.out.grad_fn());
  node.self_.register_hooks(std::make_unique<counts_unpacking>(calls));
  it.log.run({it.out});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(it.log.lines, (steps{"v", "message", "u"}));
  it.expect_wanted();
}

TEST(split_nodes, release_what_they_have_saved) {
  two_layers it;
  const c10::weak_intrusive_ptr<at::TensorImpl> saved(it.hidden.getIntrusivePtr());
  it.hidden = at::Tensor();
  ASSERT_FALSE(saved.expired());
  it.log.run({it.out});
  EXPECT_TRUE(saved.expired());
  try {
    it.log.run({it.out});
    FAIL() << "a released graph was gone through";
  } catch (const backward_error& e) {
    EXPECT_NE(std::string(e.what()).find("a second time"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("MmBackward0"), std::string::npos) << e.what();
  }
}

TEST(split_nodes, leave_a_kept_graph_as_it_was) {
  two_layers it;
  for (int turn = 0; turn < 3; ++turn) {
    it.log.lines.clear();
    it.log.run({it.out}, {turn < 2, false});
    EXPECT_EQ(it.log.lines, (steps{"message", "v", "u"}));
    it.expect_wanted();
  }
}

TEST(split_nodes, are_none_where_the_pass_is_recorded) {
  two_layers it;
  it.log.run({it.out}, {true, true});
  EXPECT_EQ(it.log.lines, (steps{"v", "message", "u"}));
  it.expect_wanted();
  EXPECT_TRUE(it.log.gradients.at("u").requires_grad());
}

TEST(split_nodes, see_that_a_saved_tensor_was_written_to) {
  two_layers it;
  const auto text_of = [&](const std::function<void()>& pass) {
    try {
      pass();
      return std::string("nothing was thrown");
    } catch (const backward_error& e) {
      return std::string(e.what());
    }
  };
  {
    const at::NoGradGuard no_grad;
    it.v.mul_(2);
  }
  const auto text = text_of([&] { it.log.run({it.out}); });
  EXPECT_NE(text.find("modified by an inplace operation"), std::string::npos) << text;
  EXPECT_TRUE(it.log.lines.empty());
}

TEST(split_nodes, fail_the_pass_with_what_their_rest_throws) {
  two_layers it;
  executor pass(plan_of({it.out}), {}, [](const at::Tensor&, const at::Tensor&) {
    throw std::runtime_error("no room for it");
  });
  pass.arrive(0, {torch::ones_like(it.out)});
  EXPECT_THROW(pass.run(), backward_error);
  EXPECT_EQ(it.log.lines, steps{"message"}) << "which had gone before";
  ASSERT_TRUE(pass.failure());
  EXPECT_NE(std::string(pass.failure()->what()).find("no room for it"), std::string::npos);
  EXPECT_THROW(pass.run(), backward_error);
}

TEST(split_nodes, do_not_wait_with_more_than_fits) {
  constexpr int layers = 7, rows = 1 << 17;  // a gradient and an input of 32 MiB each
  const received message(torch::randn({rows, 64}));
  journal log;
  log.observe(message);
  std::vector<at::Tensor> all;
  auto x = message.tensor;
  for (int i = 0; i < layers; ++i) {
    all.push_back(weights({64, 64}));
    log.names[all.back().unsafeGetTensorImpl()] = std::to_string(i);
    x = x.mm(all.back());
  }
  log.run({x});
  EXPECT_EQ(log.lines, (steps{"2", "1", "message", "0", "6", "5", "4", "3"}))
      << "256 MiB wait, the others do not";
}

// Views count with what they keep alive.
TEST(split_nodes, do_not_wait_with_slices_of_more_than_fits) {
  const received message(torch::randn({192, 192}));
  const auto w = weights({192, 192});
  journal log;
  log.observe(message);
  log.names = {{w.unsafeGetTensorImpl(), "w"}};
  for (const std::int64_t kept : {192, 1 << 19}) {
    const auto out = message.tensor.mm(w);
    executor pass(plan_of({out}), {}, log.sink());
    const auto gradient = torch::empty({192, kept}).slice(1, 0, 192).fill_(1);
    pass.arrive(0, {gradient});
    const called_nodes nodes;
    EXPECT_TRUE(pass.run());
    const auto names = nodes.names();
    EXPECT_EQ(std::count(names.begin(), names.end(), "MmBackward0"), kept == 192 ? 2 : 1);
    EXPECT_TRUE(same_bits(log.gradients.at("w"), message.tensor.detach().t().mm(gradient)));
  }
}

// Changes what it is given, as nodes and hooks should not.
struct writes : ta::Function<writes> {
  static at::Tensor forward(ta::AutogradContext*, at::Tensor x) { return x.clone(); }
  static variable_list backward(ta::AutogradContext*, variable_list g) {
    g[0].mul_(3);
    return {g[0]};
  }
};

TEST(split_nodes, keep_their_gradient_from_others) {
  const received message(torch::randn({192, 192}));
  const auto x = torch::randn({192, 192}), w = weights({192, 192});
  journal log;
  log.names = {{w.unsafeGetTensorImpl(), "w"}};
  const auto out = at::addmm(writes::apply(message.tensor), x, w);
  log.run({out});
  EXPECT_TRUE(same_bits(log.gradients.at("w"), x.t().mm(torch::ones({192, 192}))));
}

TEST(split_nodes, need_only_what_they_compute_with) {
  const received message(torch::randn({192, 192}));
  const auto w = weights({192, 192}), u = weights({192, 192}), b = weights({192});
  const auto of_w = w * 2;
  const auto out = at::addmm(b, message.tensor.mm(u), of_w);
  const auto square = of_w.square().sum();
  leaf_gradients got;
  const auto into = sink_into(got, {w, u, b});
  executor pass(plan_of({out, square}), {},
                [&](const at::Tensor& leaf, const at::Tensor& gradient) {
                  into(leaf, gradient);
                  const at::NoGradGuard no_grad;
                  leaf.sub_(gradient);  // a step
                });
  pass.arrive(0, {torch::ones_like(out)});
  pass.arrive(1, {torch::ones_like(square)});
  EXPECT_TRUE(pass.run());
  for (const auto& one : got) EXPECT_TRUE(one.defined());
}

// libtorch makes the gradients of a convolution's weights and bias at once, if one is asked for.
TEST(split_nodes, are_none_where_an_output_would_be_made_twice) {
  const received message(torch::randn({8, 16, 16, 18}));
  const auto w = weights({16, 16, 3, 3}), b = weights({16});
  journal log;
  log.observe(message);
  log.names = {{w.unsafeGetTensorImpl(), "w"}, {b.unsafeGetTensorImpl(), "b"}};
  const auto through = [&](const at::Tensor& bias) {
    return at::conv2d(message.tensor, w, bias, 1, 1);
  };
  const auto calls_for = [&](const at::Tensor& root) {
    log.lines.clear();
    const called_nodes nodes;
    log.run({root});
    const auto names = nodes.names();
    return std::count(names.begin(), names.end(), "ConvolutionBackward0");
  };
  const auto shared = b * 2;  // its gradient comes from two
  EXPECT_EQ(calls_for(through(shared) + through(shared)), 3) << "the last to add to it may wait";
  EXPECT_EQ(calls_for(through(b)), 2);
}

// w[a, b] times x[b, c] and the other way round: a * b * c multiplications.
TEST(split_nodes, are_chosen_by_their_multiplications) {
  const auto splits = [](std::int64_t a, std::int64_t b, std::int64_t c, bool left) {
    const received message(left ? torch::randn({b, c}) : torch::randn({a, b}));
    const auto w = left ? weights({a, b}) : weights({b, c});
    journal log;
    log.observe(message);
    log.names = {{w.unsafeGetTensorImpl(), "w"}};
    const auto out = left ? w.mm(message.tensor) : message.tensor.mm(w);
    const called_nodes nodes;
    log.run({out});
    const auto names = nodes.names();
    return std::count(names.begin(), names.end(), "MmBackward0") == 2;
  };
  for (const bool left : {true, false}) {
    EXPECT_TRUE(splits(2, 64, 1 << 15, left));
    EXPECT_TRUE(splits(1 << 15, 64, 2, left));
    EXPECT_TRUE(splits(64, 1 << 15, 2, left));
    EXPECT_FALSE(splits(64, 64, 1000, left));
    EXPECT_FALSE(splits(1 << 15, 1, 64, left));
  }
}

TEST(split_nodes, find_their_way_in_deep_graphs) {
  two_layers it;
  const auto x = torch::ones({2}).requires_grad_();
  it.log.names[x.unsafeGetTensorImpl()] = "x";
  auto deep = x;
  for (int i = 0; i < 20000; ++i) deep = deep + 1;
  const received other(torch::randn({192, 192}));
  it.log.observe(other);
  const auto scaled = other.tensor * deep.sum();  // far from its end
  it.log.run({it.out, scaled.mm(it.v)});
  EXPECT_EQ(it.message.node->calls, 1);
  EXPECT_EQ(other.node->calls, 1);
  EXPECT_EQ(std::count(it.log.lines.begin(), it.log.lines.end(), "x"), 1);
}

TEST(split_nodes, wait_for_no_end_that_was_left_out) {
  two_layers it;
  const auto w = weights({192, 192});
  it.log.names[w.unsafeGetTensorImpl()] = "w";
  const auto other = torch::full({192, 192}, 2.0).requires_grad_();
  it.log.names[other.unsafeGetTensorImpl()] = "other";
  const auto sent = other.mm(w);
  executor pass(plan_of({it.out, sent}), {}, it.log.sink());
  pass.leave_out({0});
  pass.arrive(1, {torch::ones_like(sent)});
  EXPECT_TRUE(pass.run());
  EXPECT_EQ(it.log.lines.size(), 2u);
  EXPECT_EQ(it.message.node->calls, 0);
}

TEST(split_nodes, run_at_once_on_threads_that_keep_the_graph) {
  const received message(torch::randn({192, 192}));
  const auto w = weights({192, 192}), u = weights({192, 192});
  const auto out = message.tensor.mm(w).tanh().mm(u);
  const auto x = message.tensor.detach().clone().requires_grad_();
  const auto wanted = ta::grad({x.mm(w).tanh().mm(u)}, {w, u}, {torch::ones_like(out)});
  std::vector<std::thread> threads;
  std::vector<leaf_gradients> got(4);
  for (auto& into : got)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 5; ++turn) {
        into.clear();
        executor pass(plan_of({out}), {true, false}, sink_into(into, {w, u}));
        pass.arrive(0, {torch::ones_like(out)});
        pass.run();
      }
    });
  for (auto& one : threads) one.join();
  for (const auto& one : got)
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(one[i], wanted[i]));
}

// Layers of any kind, between messages and a root.
struct random_layers {
  random_layers(std::uint64_t seed, at::ScalarType dtype, at::Tensor from) {
    std::mt19937_64 random(seed);
    torch::manual_seed(seed);
    const auto any = [&](int n) { return int(random() % std::uint64_t(n)); };
    std::vector<at::Tensor> seen{from};
    const auto earlier = [&] { return seen[std::size_t(any(int(seen.size())))]; };
    const auto leaf = [&](at::IntArrayRef sizes) {
      if (any(2) == 0)
        for (const auto& one : leaves)
          if (one.sizes() == sizes) return one;
      leaves.push_back(weights(sizes, dtype));
      return leaves.back();
    };
    std::vector<at::Tensor> transposed;  // made long before they are used
    for (int i = 0; i < 4; ++i) transposed.push_back(leaf({192, 192}).t());
    const int count = 4 + any(6);
    for (int i = 0; i < count; ++i) {
      auto x = earlier();
      switch (any(8)) {
        case 0: x = x.mm(leaf({192, 192})); break;
        case 1: x = x.mm(leaf({192, 192}).t()); break;
        case 2: x = at::linear(x, leaf({192, 192}), leaf({192})); break;
        case 3: x = at::addmm(earlier(), x, leaf({192, 192}), 2, 0.5); break;
        case 4: x = leaf({192, 192}).mm(x.tanh()); break;
        case 5: x = x.mm(transposed[std::size_t(any(4))]); break;
        case 6:
          x = at::conv2d(x.view({8, 16, 16, 18}), leaf({16, 16, 3, 3}), leaf({16}), 1, 1)
                  .reshape({192, 192});
          break;
        default: x = x.tanh() + earlier() * leaf({192, 192}).to(dtype);
      }
      if (any(6) == 0) x.register_hook([](const at::Tensor& g) { return g * 0.5; });
      seen.push_back(x);
    }
    root = seen.back() + seen[seen.size() / 2];
    if (any(2) == 0) root = root.mm(leaf({192, 192}));
  }
  std::vector<at::Tensor> leaves;
  at::Tensor root;
};

class split_random_layers : public ::testing::TestWithParam<at::ScalarType> {};

INSTANTIATE_TEST_SUITE_P(dtypes, split_random_layers,
                         ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST_P(split_random_layers, give_the_engines_bits) {
  int sooner = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    torch::manual_seed(seed);
    const auto value = torch::randn({192, 192}).to(GetParam());
    const auto x = value.clone().requires_grad_();
    const random_layers a(seed, GetParam(), x);
    auto inputs = a.leaves;
    inputs.push_back(x);
    const auto wanted =
        ta::grad({a.root}, inputs, {torch::ones_like(a.root)}, false, false, /*allow_unused=*/true);

    const received message(value.clone());
    const random_layers b(seed, GetParam(), message.tensor);
    leaf_gradients got;
    std::size_t before = b.leaves.size();  // leaves that had theirs when the message was sent
    message.node->when_called = [&] {
      before = std::size_t(std::count_if(got.begin(), got.end(),
                                         [](const at::Tensor& one) { return one.defined(); }));
    };
    executor pass(plan_of({b.root}), {}, sink_into(got, b.leaves));
    pass.arrive(0, {torch::ones_like(b.root)});
    EXPECT_TRUE(pass.run());
    for (std::size_t i = 0; i < b.leaves.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], wanted[i])) << "leaf " << i;
    const auto sent = message.node->calls > 0 ? message.node->got.at(0) : at::Tensor();
    EXPECT_TRUE(same_bits(sent, wanted.back()));
    sooner += before == 0;
  }
  EXPECT_GT(sooner, 10) << "otherwise this shows little";
}

}  // namespace
}  // namespace troupe::test
