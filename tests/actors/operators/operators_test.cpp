// Operators of libtorch called on other nodes by their names.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <functional>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A library of operators like anybody's.
std::string greet(std::string name, double times) {
  if (times < 0) throw std::out_of_range("fewer than none");
  return this_node().name() + " greets " + name + " " + std::to_string(times);
}
TORCH_LIBRARY(troupe_test, library) { library.def("greet", greet); }

class operators : public on_networks {};
TROUPE_ON_NETWORKS(operators);

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.layout() != b.layout() ||
      a.requires_grad() != b.requires_grad())
    return false;
  if (a.is_quantized()) return alike(a.dequantize(), b.dequantize());
  const auto x = a.to_dense(), y = b.to_dense();
  return x.is_floating_point() || x.is_complex() ? at::allclose(x, y, 1e-6, 1e-6, true)
                                                 : at::equal(x, y);
}

bool alike(const op_value& a, const op_value& b) {
  const std::string type = a.type();
  if (type != b.type()) return false;
  if (type == "Tensor") return alike(a.to<at::Tensor>(), b.to<at::Tensor>());
  if (type == "Tensor[]") {
    const auto xs = a.to<std::vector<at::Tensor>>(), ys = b.to<std::vector<at::Tensor>>();
    return std::equal(xs.begin(), xs.end(), ys.begin(), ys.end(),
                      [](const at::Tensor& x, const at::Tensor& y) { return alike(x, y); });
  }
  if (type == "int") return a.to<std::int64_t>() == b.to<std::int64_t>();
  if (type == "float") return a.to<double>() == b.to<double>();
  if (type == "bool") return a.to<bool>() == b.to<bool>();
  if (type == "complex") return a.to<std::complex<double>>() == b.to<std::complex<double>>();
  if (type == "int[]")
    return a.to<std::vector<std::int64_t>>() == b.to<std::vector<std::int64_t>>();
  return type == "None";
}

op_result result(const op_value& one) { return op_result({one}); }
template <class... Ts>
op_result result(const std::tuple<Ts...>& all) {
  return std::apply([](const auto&... xs) { return op_result({op_value(xs)...}); }, all);
}

std::string types_of(const op_result& x) {
  std::string text;
  for (std::size_t i = 0; i < x.size(); ++i) text += std::string(x[i].type()) + ' ';
  return text;
}

// An operator called there, and what the same call gives here.
struct example {
  std::string name;
  op_result here;
  std::function<op_result(const node&, const destination&)> there;
};

template <class Here, class... Args>
example same(const char* name, const Here& here, const Args&... args) {
  return {name, result(here), [=](const node& from, const destination& to) {
            return from.rpc_sync(to, name, args...);
          }};
}

using ints = std::vector<std::int64_t>;
using tensors = std::vector<at::Tensor>;
using optional_tensors = std::vector<std::optional<at::Tensor>>;

std::vector<example> examples() {
  at::manual_seed(7);
  const auto a = at::randn({3, 4}), b = at::randn({3, 4}), square = at::randn({4, 4});
  const auto image = at::randn({2, 3, 8, 8}), weight = at::randn({5, 3, 3, 3});
  const auto bias = at::randn({5}), row = at::randn({4});
  const auto whole = at::randint(0, 3, {6}, at::kLong), mask = a.gt(0);
  const auto query = at::randn({1, 2, 5, 4}), key = at::randn({1, 2, 6, 4});
  const auto grad = at::randn({2, 5, 6, 6}), learnt = at::randn({3, 4}).requires_grad_();
  const auto gates = at::randn({12, 4}), hidden = at::zeros({1, 2, 3});
  const c10::List<std::optional<at::Tensor>> first_row({at::tensor(0), std::nullopt});
  return {
      same("aten::add.Tensor", a + b, a, b),
      same("aten::add.Tensor", at::add(a, b, 2.5), a, b, kw("alpha", 2.5)),
      same("aten::add", at::add(a, 2), a, 2),
      same("aten::mul", a.t() * 2.0, a.t(), 2.0),
      same("aten::matmul", a.matmul(square), a, square),
      same("aten::linear", at::linear(image, at::ones({2, 8})), image, at::ones({2, 8})),
      same("aten::relu", a.relu(), a),
      same("aten::softmax.int", a.softmax(1), a, 1),
      same("aten::softmax", a.softmax(1, at::kDouble), a, 1, at::kDouble),
      same("aten::sum", a.sum(), a),
      same("aten::sum.dim_IntList", a.sum({0}, true), a, ints{0}, true),
      same("aten::sum", a.sum(1), a, 1),
      same("aten::sum", a.sum(at::kDouble), a, kw("dtype", at::kDouble)),
      same("aten::mean", a.mean(ints{0, 1}), a, std::array<int, 2>{0, 1}),
      same("aten::max", a.max(), a),
      same("aten::max", a.max(1), a, 1),
      same("aten::max", at::max(a, b), a, b),
      same("aten::topk", a.topk(2), a, 2),
      same("aten::topk", a.topk(2, 0, false), a, 2, kw("largest", false), kw("dim", 0)),
      same("aten::sort", a.sort(1, true), a, 1, true),
      same("aten::var_mean", at::var_mean(a, ints{1}), a, ints{1}),
      same("aten::cat", at::cat({a, b}, 1), tensors{a, b}, 1),
      same("aten::cat", at::cat({a, b}), std::array{a, b}),
      same("aten::stack", at::stack({a, b}), optional_tensors{a, b}),
      same("aten::split", a.split(2, 1), a, 2, 1),
      same("aten::chunk", at::chunk(whole, 4), whole, 4),
      same("aten::unbind.int", a.unbind(1), a, 1),
      same("aten::where", at::where(mask, a, b), mask, a, b),
      same("aten::where", at::where(mask, 1.0, 0), mask, 1.0, 0),
      same("aten::where", at::where(mask), mask),
      same("aten::index.Tensor", at::index(a, first_row), a,
           optional_tensors{at::tensor(0), std::nullopt}),
      same("aten::index", at::index(whole, {at::tensor({2, 0})}), whole,
           tensors{at::tensor({2, 0})}),
      same("aten::index_put", at::index_put(a, first_row, at::ones({4})), a,
           optional_tensors{at::tensor(0), std::nullopt}, at::ones({4})),
      same("aten::gather", a.gather(1, at::zeros({3, 1}, at::kLong)), a, 1,
           at::zeros({3, 1}, at::kLong)),
      same("aten::embedding", at::embedding(a, at::tensor({2, 0})), a, at::tensor({2, 0})),
      same("aten::conv2d", at::conv2d(image, weight, bias), image, weight, bias),
      same("aten::conv2d", at::conv2d(image, weight, {}, 2, 1), image, weight, std::nullopt, 2, 1),
      same("aten::conv2d", at::conv2d(image, weight, bias, ints{1}, "same"), image, weight, bias, 1,
           "same"),
      same("aten::convolution_backward",
           at::convolution_backward(grad, image, weight, ints{5}, {1, 1}, {0, 0}, {1, 1}, false,
                                    {0, 0}, 1, {false, true, true}),
           grad, image, weight, ints{5}, ints{1, 1}, ints{0, 0}, ints{1, 1}, false, ints{0, 0}, 1,
           std::vector{false, true, true}),
      same("aten::layer_norm", at::layer_norm(a, {4}), a, ints{4}),
      same("aten::layer_norm", at::layer_norm(a, {4}, row, {}, 1), a, ints{4}, row, std::nullopt,
           1),
      same("aten::lstm",
           at::lstm(a.view({3, 1, 4}).expand({3, 2, 4}), {hidden, hidden},
                    {gates, at::ones({12, 3})}, false, 1, 0, false, false, false),
           a.view({3, 1, 4}).expand({3, 2, 4}), tensors{hidden, hidden},
           tensors{gates, at::ones({12, 3})}, false, 1, 0.0, false, false, false),
      same("aten::scaled_dot_product_attention", at::scaled_dot_product_attention(query, key, key),
           query, key, key),
      same("aten::scaled_dot_product_attention",
           at::scaled_dot_product_attention(query, key, key, at::ones({5, 6}), 0, false, 0.5),
           query, key, key, kw("scale", 0.5), kw("attn_mask", at::ones({5, 6}))),
      same("aten::clamp", a.clamp(0.0), a, kw("min", 0.0)),
      same("aten::clamp", a.clamp({}, 1), a, std::nullopt, 1),
      same("aten::clamp", at::clamp(a, at::zeros({4})), a, at::zeros({4})),
      same("aten::pow", at::pow(2, whole), 2, whole),
      same("aten::div", at::div(a, 3, "floor"), a, 3, kw("rounding_mode", "floor")),
      same("aten::to", a.to(at::kHalf), a, at::kHalf),
      same("aten::to", a.to(at::kDouble), a, at::kCPU, at::kDouble),
      same("aten::contiguous", image.contiguous(at::MemoryFormat::ChannelsLast), image,
           kw("memory_format", at::MemoryFormat::ChannelsLast)),
      same("aten::to_sparse", a.to_sparse(), a),
      same("aten::arange", at::arange(5), 5),
      same("aten::arange", at::arange(1, 5.5), 1, 5.5),
      same("aten::full", at::full({2, 2}, 1.5, at::kDouble), ints{2, 2}, 1.5,
           kw("dtype", at::kDouble), kw("device", "cpu"), kw("layout", at::kStrided)),
      same("aten::zeros", at::zeros({0, 3}, at::kBool), ints{0, 3}, kw("dtype", at::kBool)),
      same("aten::mul", at::mul(whole, c10::complex<double>(0, 1)), whole,
           std::complex<double>(0, 1)),
      same("aten::_foreach_add", at::_foreach_add(tensors{a, b}, 1), tensors{a, b}, 1),
      same("aten::_foreach_add", at::_foreach_add(tensors{a, b}, {at::Scalar(1), at::Scalar(2)}),
           tensors{a, b}, ints{1, 2}),
      same("aten::equal", a.equal(b), a, b),
      same("aten::size", std::int64_t{4}, a, 1),
      same("aten::item", a[0][0].item(), a[0][0]),
      same("aten::mul", learnt * 2, learnt, 2),
      same("aten::detach", learnt.detach(), learnt),
      same("aten::quantize_per_tensor", at::quantize_per_tensor(a, 0.1, 3, at::kQInt8), a, 0.1, 3,
           at::kQInt8),
  };
}

TEST_P(operators, give_what_they_give_at_home) {
  auto nodes = start({"a", "ps"});
  for (const auto& one : examples())
    for (int to : {0, 1}) {
      SCOPED_TRACE(one.name + " on " + std::to_string(to));
      const auto there = one.there(nodes[0], to);
      ASSERT_EQ(types_of(there), types_of(one.here));
      for (std::size_t i = 0; i < there.size(); ++i)
        EXPECT_TRUE(alike(there[i], one.here[i])) << "result " << i;
    }
  shut_down(nodes);
}

// What numbers and tensors of all dtypes have in common when no overload is named.
TEST_P(operators, promote_dtypes_as_at_home) {
  auto nodes = start({"a", "ps"});
  const auto& from = nodes[0];
  const std::vector<at::ScalarType> dtypes{at::kByte,  at::kInt,    at::kLong,          at::kHalf,
                                           at::kFloat, at::kDouble, at::kComplexDouble, at::kBool};
  for (const auto dtype : dtypes) {
    const auto x = at::ones({2}, dtype);
    for (const at::Scalar& y : {at::Scalar(2), at::Scalar(2.5), at::Scalar(true),
                                at::Scalar(c10::complex<double>(1, 2))}) {
      EXPECT_TRUE(alike(from.rpc_sync(1, "aten::mul", x, y).to<at::Tensor>(), x.mul(y)));
      EXPECT_TRUE(alike(from.rpc_sync(1, "aten::mul.Tensor", x, y).to<at::Tensor>(), x.mul(y)));
      EXPECT_TRUE(alike(from.rpc_sync(1, "aten::mul.Tensor", y, x).to<at::Tensor>(), x.mul(y)));
    }
    for (const auto other : dtypes) {
      const auto y = at::ones({}, other);
      EXPECT_TRUE(alike(from.rpc_sync(1, "aten::mul", x, y).to<at::Tensor>(), x.mul(y)));
      EXPECT_TRUE(
          alike(from.rpc_sync(1, "aten::mul.Scalar", x, y).to<at::Tensor>(), x.mul(y.item())));
      EXPECT_EQ(from.rpc_sync(1, "aten::promote_types", dtype, other).to<at::ScalarType>(),
                at::promote_types(dtype, other));
    }
  }
}

TEST_P(operators, return_several_values_and_none) {
  auto nodes = start({"a", "ps"});
  const auto& from = nodes[0];
  const auto x = at::tensor({3.0, 1.0, 2.0});
  const auto found = from.rpc_async("ps", "aten::topk", x, 2);
  const auto [values, places] = found.get().to<std::tuple<at::Tensor, at::Tensor>>();
  EXPECT_TRUE(at::equal(values, at::tensor({3.0, 2.0})));
  EXPECT_TRUE(at::equal(places, at::tensor({0, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(found.get()[1].to<at::Tensor>(), places));
  EXPECT_EQ(from.rpc_sync("ps", "aten::_foreach_add_.Scalar", tensors{x}, 1).size(), 0u);
  const auto norm = from.rpc_sync("ps", "aten::native_batch_norm", at::ones({2, 3}), std::nullopt,
                                  std::nullopt, std::nullopt, std::nullopt, true, 0.1, 1e-5);
  EXPECT_EQ(norm.size(), 3u);
  const auto masked = from.rpc_sync("ps", "aten::native_layer_norm_backward", at::ones({2, 3}),
                                    at::ones({2, 3}), ints{3}, at::zeros({2, 1}), at::ones({2, 1}),
                                    std::nullopt, std::nullopt, std::vector{true, false, false});
  EXPECT_EQ(types_of(masked), "Tensor None None ");
  EXPECT_FALSE(masked[1].to<at::Tensor>().defined());
  EXPECT_EQ(masked[1].to<std::optional<at::Tensor>>(), std::nullopt);
}

TEST_P(operators, work_on_the_callees_copy_in_place) {
  auto nodes = start({"a", "ps"});
  const auto& from = nodes[0];
  for (int to : {0, 1}) {
    const auto x = at::ones({40'000}), y = at::arange(4.0), out = at::zeros({3});
    EXPECT_EQ(from.rpc_sync(to, "aten::add_", x, 1).to<at::Tensor>().sum().item<int>(), 80'000);
    EXPECT_EQ(from.rpc_sync(to, "aten::zero_", x).to<at::Tensor>().sum().item<int>(), 0);
    EXPECT_EQ(x.sum().item<int>(), 40'000);
    EXPECT_TRUE(at::equal(from.rpc_sync(to, "aten::set_", x, y).to<at::Tensor>(), y));
    EXPECT_TRUE(at::equal(from.rpc_sync(to, "aten::set_", x).to<at::Tensor>(), at::empty({0})));
    EXPECT_TRUE(at::equal(
        from.rpc_sync(to, "aten::add", y, y, kw("out", at::empty({0}))).to<at::Tensor>(), y + y));
    EXPECT_TRUE(at::equal(from.rpc_sync(to, "aten::copy_", out, y[2]).to<at::Tensor>(),
                          at::full({3}, 2.0)));
    EXPECT_EQ(out.sum().item<int>(), 0);
    EXPECT_EQ(x.sizes(), at::IntArrayRef({40'000}));
  }
}

TEST_P(operators, take_futures_and_results_as_arguments) {
  auto nodes = start({"a", "ps"});
  const auto& from = nodes[0];
  const auto a = at::randn({3, 3}), b = at::randn({3, 3});
  const auto product = from.rpc_async("ps", "aten::matmul", a, b);
  const auto sum = from.rpc_async(0, "aten::add", product, kw("other", product), kw("alpha", 2));
  EXPECT_TRUE(at::allclose(sum.get().to<at::Tensor>(), 3 * a.matmul(b)));
  EXPECT_TRUE(
      alike(from.rpc_sync("ps", "aten::relu", product.get()).to<at::Tensor>(), a.matmul(b).relu()));
  promise<at::Tensor> mine;
  const auto later = from.rpc_async("ps", "aten::neg", mine.get_future());
  EXPECT_FALSE(later.ready());
  mine.set_value(a);
  EXPECT_TRUE(at::equal(later.get().to<at::Tensor>(), -a));
  const auto wrong = from.rpc_async("ps", "aten::matmul", a, at::ones({7}));
  const auto why = fault_of<remote_error>([&] { from.rpc_sync("ps", "aten::relu", wrong); });
  EXPECT_EQ(why.function, "aten::matmul");
  const auto pair = from.rpc_async("ps", "aten::topk", a, 1);
  EXPECT_THROW(from.rpc_sync("ps", "aten::relu", pair), invalid_argument);
  EXPECT_THROW(from.rpc_sync("ps", "aten::relu", future<at::Tensor>()), invalid_argument);
}

TEST_P(operators, may_be_those_of_other_libraries) {
  rpc_options options;
  options.operators = {"troupe_test::greet"};
  auto nodes = start({"a", "ps"}, options);
  EXPECT_EQ(nodes[0].rpc_sync("ps", "troupe_test::greet", "you", 2).to<std::string>(),
            "ps greets you 2.000000");
  const auto why =
      fault_of<remote_error>([&] { nodes[0].rpc_sync("ps", "troupe_test::greet", "you", -1.0); });
  EXPECT_EQ(why.type, "std::out_of_range");
  EXPECT_EQ(why.text, "fewer than none");
  EXPECT_EQ(why.function, "troupe_test::greet");
}

TEST_P(operators, take_options_behind_the_arguments) {
  auto nodes = start({"a", "ps"});
  const auto x = at::ones({3});
  EXPECT_TRUE(at::equal(
      nodes[0].rpc_sync("ps", "aten::neg", x, timeout(time_limit), no_wait).to<at::Tensor>(), -x));
  EXPECT_TRUE(at::equal(
      nodes[0].rpc_async("ps", "aten::add", x, kw("other", x), timeout(0s)).get().to<at::Tensor>(),
      x + x));
}

TEST_P(operators, throw_what_libtorch_throws) {
  auto nodes = start({"a", "ps"});
  for (int to : {0, 1}) {
    auto why = fault_of<remote_error>([&] {
      nodes[0].rpc_sync(to, "aten::matmul", at::ones({2, 3}), at::ones({2, 3}));
    });
    EXPECT_EQ(why.type, "c10::Error");
    EXPECT_EQ(why.function, "aten::matmul");
    EXPECT_EQ(why.node, nodes[to].name());
    EXPECT_THAT(why.text, HasSubstr("cannot be multiplied"));
    EXPECT_THAT(why.text, Not(HasSubstr("frame #")));
    why = fault_of<remote_error>([&] { nodes[0].rpc_sync(to, "aten::sum", at::ones({2}), 5); });
    EXPECT_EQ(why.type, "c10::IndexError");
    EXPECT_EQ(why.function, "aten::sum");
    auto leaf = at::ones({2}).requires_grad_();
    EXPECT_THROW(nodes[0].rpc_sync(to, "aten::add_", leaf, 1), remote_error);
    EXPECT_THROW(nodes[0].rpc_sync(to, "aten::as_strided", leaf, ints{9}, ints{9}), remote_error);
    EXPECT_THROW(nodes[0].rpc_sync(to, "aten::zeros", ints{std::int64_t{1} << 60}), remote_error);
  }
}

TEST_P(operators, that_there_are_not_are_named_with_near_ones) {
  auto nodes = start({"a", "ps"});
  const auto x = at::ones({2});
  // Of libtorch's own this node knows all itself.
  auto why = fault_of<unknown_function>([&] { nodes[0].rpc_async("ps", "aten::matmull", x, x); });
  EXPECT_EQ(why.node, "ps");
  EXPECT_EQ(why.function, "aten::matmull");
  EXPECT_THAT(why.text, HasSubstr("similar names are aten::matmul"));
  why = fault_of<unknown_function>([&] { nodes[0].rpc_async("ps", "aten::add.Tensr", x, x); });
  EXPECT_THAT(why.text, HasSubstr("similar names are aten::add.Tensor, "));
  EXPECT_EQ(std::count(why.text.begin(), why.text.end(), ','), 2);
  why = fault_of<unknown_function>([&] { nodes[0].rpc_async("ps", "aten::qqqqqqqqqqqqq", x); });
  EXPECT_THAT(why.text, Not(HasSubstr("similar")));
  // TorchScript's own are none of the dispatcher's.
  EXPECT_THROW(nodes[0].rpc_async("ps", "aten::add.int", 1, 2), unknown_function);
  EXPECT_THROW(nodes[0].rpc_async("ps", "aten::len", x), unknown_function);
  // Those of libraries may be the callee's alone.
  const auto later = nodes[0].rpc_async("ps", "mine::matmul", x, x);
  why = fault_of<unknown_function>([&] { later.get(); });
  EXPECT_EQ(why.node, "ps");
  EXPECT_EQ(why.function, "mine::matmul");
  for (const std::string bad :
       {"add", "", "::", "aten::", "::add", "aten::add.", "aten::add.Tensor.x", "aten::a dd",
        "aten:add", "aten::add::Tensor", "aten.add::x", "mine::\n"})
    EXPECT_THROW(nodes[0].rpc_async("ps", bad, x), invalid_argument) << bad;
  EXPECT_THROW(nodes[0].rpc_async("ps", "aten::" + std::string(1 << 20, 'x'), x), invalid_argument);
  EXPECT_THROW(nodes[0].rpc_async("zebra", "aten::neg", x), unknown_worker);
}

TEST_P(operators, report_why_no_overload_fits) {
  auto nodes = start({"a", "ps"});
  const auto& from = nodes[0];
  const auto x = at::ones({2});
  const auto text_of = [&](auto name, const auto&... args) {
    const auto why = fault_of<invalid_argument>([&] { from.rpc_sync("ps", name, args...); });
    EXPECT_EQ(why.node, "ps");
    EXPECT_EQ(why.function, name);
    return why.text;
  };
  auto text = text_of("aten::add", x, "text");
  EXPECT_THAT(text, HasSubstr("(Tensor, str) fits no overload of aten::add:"));
  EXPECT_THAT(text, HasSubstr("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> "
                              "Tensor: \"other\" (Scalar) cannot be str"));
  EXPECT_THAT(text, HasSubstr("aten::add.Tensor(Tensor self, "));
  text = text_of("aten::add.Tensor", x, x, x);
  EXPECT_THAT(text, HasSubstr("(Tensor, Tensor, Tensor) does not fit aten::add.Tensor:"));
  EXPECT_THAT(text, HasSubstr("it takes 2 arguments without a name, and 3 were given"));
  EXPECT_THAT(text_of("aten::relu", x, 1, 2), HasSubstr("it takes 1 arguments, and 3 were given"));
  EXPECT_THAT(text_of("aten::topk", x), HasSubstr("\"k\" (SymInt) is missing"));
  EXPECT_THAT(text_of("aten::relu"), HasSubstr("\"self\" (Tensor) is missing"));
  EXPECT_THAT(text_of("aten::relu", at::Tensor()), HasSubstr("\"self\" (Tensor) cannot be None"));
  EXPECT_THAT(text_of("aten::topk", x, 1.5), HasSubstr("\"k\" (SymInt) cannot be float"));
  EXPECT_THAT(text_of("aten::topk", x, true), HasSubstr("\"k\" (SymInt) cannot be bool"));
  EXPECT_THAT(text_of("aten::topk", x, at::kFloat), HasSubstr("cannot be ScalarType"));
  EXPECT_THAT(text_of("aten::topk", x, 1, kw("kk", 1)), HasSubstr("(Tensor, int, kk=int)"));
  EXPECT_THAT(text_of("aten::topk", x, 1, kw("kk", 1)), HasSubstr("it has no argument \"kk\""));
  EXPECT_THAT(text_of("aten::topk", x, 1, kw("k", 1)), HasSubstr("\"k\" is given twice"));
  EXPECT_THAT(text_of("aten::topk", x, kw("k", 1), kw("k", 1)), HasSubstr("is given twice"));
  EXPECT_THAT(text_of("aten::to.dtype", x, 6), HasSubstr("\"dtype\" (ScalarType) cannot be int"));
  EXPECT_THAT(text_of("aten::cat", tensors{x, at::Tensor()}),
              HasSubstr("\"tensors\" (Tensor[]) cannot be Tensor?[]"));
  EXPECT_THAT(text_of("aten::ones", ints{1}, kw("device", "moon")), HasSubstr("cannot be str"));
  // A tensor that autograd follows is no number.
  EXPECT_THAT(text_of("aten::topk", x, at::tensor(1.0)), HasSubstr("cannot be Tensor"));
  EXPECT_THAT(text_of("aten::mul.Scalar", x, at::ones({}).requires_grad_()),
              HasSubstr("cannot be Tensor"));
}

TEST_P(operators, name_the_types_that_cannot_travel) {
  auto nodes = start({"a", "ps"});
  const auto x = at::ones({2});
  auto why = fault_of<invalid_argument>([&] { nodes[0].rpc_sync("ps", "aten::qscheme", x); });
  EXPECT_THAT(why.text, HasSubstr("it returns QScheme, which cannot be sent"));
  why = fault_of<invalid_argument>(
      [&] { nodes[0].rpc_sync("ps", "aten::set_.source_Storage", x, 1); });
  EXPECT_THAT(why.text, HasSubstr("\"source\" (Storage) cannot be sent"));
  why = fault_of<invalid_argument>(
      [&] { nodes[0].rpc_sync("ps", "aten::bernoulli", x, kw("generator", 1)); });
  EXPECT_THAT(why.text, HasSubstr("\"generator\" (Generator?) cannot be sent"));
  EXPECT_TRUE(at::equal(
      nodes[0].rpc_sync("ps", "aten::bernoulli", x, kw("generator", std::nullopt)).to<at::Tensor>(),
      x));
  // A tensor that no message can hold.
  why = fault_of<encode_error>(
      [&] { nodes[0].rpc_sync("ps", "aten::empty.memory_format", ints{2}, kw("device", "meta")); });
  EXPECT_EQ(why.function, "aten::empty.memory_format");
}

void pass_the_door() { shared_door::current()->pass(); }

TEST(operator_names, stand_in_timeouts_and_in_what_the_node_reports) {
  rpc_options options;
  options.max_threads = 1;
  std::vector<node> nodes;
  const shared_door door;
  nodes = local_nodes({"a", "ps"}, options);
  const auto busy = nodes[0].rpc_async<&pass_the_door>("ps");  // takes the only thread
  ASSERT_TRUE(door->wait_for(1));
  const auto why = fault_of<rpc_timeout>([&] {
    nodes[0].rpc_sync("ps", "aten::linalg_svd", at::rand({2, 2}), timeout(1ms));
  });
  door->open();
  busy.get();
  EXPECT_EQ(why.function, "aten::linalg_svd");
  EXPECT_EQ(why.node, "ps");
  nodes[1].shutdown(false);
  const auto lost =
      fault_of<peer_lost>([&] { nodes[0].rpc_sync("ps", "aten::neg", at::ones({2})); });
  EXPECT_EQ(lost.function, "aten::neg");
  nodes[0].shutdown(false);
  EXPECT_THROW(nodes[0].rpc_async("ps", "aten::neg", at::ones({2})), not_initialized);
}

TEST_P(operators, may_be_cancelled) {
  auto nodes = start({"a", "ps"});
  promise<at::Tensor> never;
  const auto waiting = nodes[0].rpc_async("ps", "aten::neg", never.get_future());
  waiting.cancel();
  auto why = fault_of<cancelled_error>([&] { waiting.get(); });
  EXPECT_EQ(why.function, "aten::neg");
  EXPECT_EQ(why.node, "ps");
  const auto slow = at::rand({1'000, 1'000}, at::kDouble);
  const auto running = nodes[0].rpc_async("ps", "aten::linalg_svd", slow);
  running.cancel();
  why = fault_of<cancelled_error>([&] { running.get(); });
  EXPECT_EQ(why.function, "aten::linalg_svd");
  EXPECT_EQ(why.node, "ps");
  // One that is ready stays as it is; an address sanitizer sees whether its name is there still.
  const auto done = nodes[0].rpc_async("ps", "aten::neg", at::ones({2}));
  done.wait();
  std::this_thread::sleep_for(1ms);
  done.cancel();
  EXPECT_EQ(done.get().to<at::Tensor>().numel(), 2);
  shut_down(nodes);
}

TEST(operator_results, are_of_the_type_asked_for) {
  const op_result one({op_value(5)});
  EXPECT_EQ(one.to<int>(), 5);
  EXPECT_EQ(one.to<std::uint8_t>(), 5);
  EXPECT_EQ(one.to<float>(), 5);
  EXPECT_EQ(one.to<std::complex<double>>(), 5.0);
  EXPECT_EQ(one.to<std::optional<int>>(), 5);
  EXPECT_EQ(one.to<at::Scalar>().toLong(), 5);
  EXPECT_EQ(one.to<std::tuple<int>>(), std::tuple(5));
  EXPECT_THAT([&] { one.to<bool>(); }, testing::ThrowsMessage<invalid_argument>(HasSubstr(
                                           "a value of an operator is of type int, not bool")));
  EXPECT_THAT([&] { one.to<at::Tensor>(); },
              testing::ThrowsMessage<invalid_argument>(HasSubstr("of type int, not at::Tensor")));
  EXPECT_THAT([&] { (one.to<std::tuple<int, int>>()); },
              testing::ThrowsMessage<invalid_argument>(
                  HasSubstr("returned 1 values, (int), and 2 were asked for")));
  EXPECT_THROW(op_result({op_value(300)}).to<std::uint8_t>(), invalid_argument);
  EXPECT_THROW(op_result({op_value(-1)}).to<unsigned>(), invalid_argument);
  EXPECT_THROW(op_result({op_value(1.5)}).to<int>(), invalid_argument);
  EXPECT_THROW(op_result().to<int>(), invalid_argument);
  EXPECT_THROW(one[1], std::out_of_range);
  EXPECT_THROW(static_cast<void>(op_value(std::numeric_limits<std::uint64_t>::max())),
               invalid_argument);
  EXPECT_EQ(op_value().to<std::optional<double>>(), std::nullopt);
  EXPECT_EQ(op_value("text").to<std::string>(), "text");
  EXPECT_EQ(op_value(at::kCPU).to<at::Device>(), at::Device(at::kCPU));
  EXPECT_EQ(op_value(at::kSparse).to<at::Layout>(), at::kSparse);
  EXPECT_EQ(op_value(ints{1, 2}).to<ints>(), (ints{1, 2}));
  EXPECT_EQ(op_value(std::vector<float>{1.5f}).to<std::vector<double>>(), std::vector{1.5});
}

}  // namespace
}  // namespace troupe::test
