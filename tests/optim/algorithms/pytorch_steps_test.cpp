// The optimizers that libtorch lacks step as PyTorch's do, whose steps record_steps.py has
// recorded, and have what libtorch's own have.

#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <bit>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <troupe/optim.hpp>

namespace troupe::test {
namespace {

using nlohmann::json;
using torch::optim::OptimizerParamGroup;

const json& recorded() {
  static const auto document = [] {
    const std::string path = TROUPE_TEST_SOURCE_DIR "/data/pytorch_steps.json";
    std::ifstream file(path);
    EXPECT_TRUE(file) << "cannot read " << path;
    return json::parse(file);
  }();
  return document;
}

template <class Real, class Bits>
at::Tensor reals(const std::string& text) {
  constexpr auto digits = 2 * sizeof(Bits);
  std::vector<Real> out;
  for (std::size_t i = 0; i + digits <= text.size(); i += digits) {
    Bits bits = 0;
    const char* begin = text.data() + i;
    EXPECT_EQ(std::from_chars(begin, begin + digits, bits, 16).ptr, begin + digits);
    out.push_back(std::bit_cast<Real>(bits));
  }
  return torch::tensor(out, torch::CppTypeToScalarType<Real>::value);
}

at::Tensor from_bits(const std::string& text, const std::string& dtype) {
  auto shape = recorded()["shape"].get<std::vector<std::int64_t>>();
  if (dtype == "float32") return reals<float, std::uint32_t>(text).view(shape);
  const auto all = reals<double, std::uint64_t>(text);
  if (dtype == "float64") return all.view(shape);
  shape.push_back(2);
  return at::view_as_complex(all.view(shape));
}

bool close(const at::Tensor& a, const at::Tensor& b, double relative, double absolute) {
  const auto real = [](const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; };
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         torch::allclose(real(a), real(b), relative, absolute);
}

template <class Options>
Options options_of(const json& given) {
  Options out;
  std::size_t found = 0;
  Options::each_field(out, [&](const char* name, auto& value) {
    if (!given.contains(name)) return;
    given.at(name).get_to(value);
    ++found;
  });
  EXPECT_EQ(found, given.size()) << given;
  return out;
}

// Sums are rounded differently where a processor has no fused multiplication and addition: within
// that (measured: 1e-7 and 1e-16 of the parameter, 7e-7 and 1e-15 of the state) all is the same.
template <class State>
void expect_recorded_state(const State& state, const json& row, bool single) {
  const double relative = single ? 1e-5 : 1e-13;
  std::size_t found = 0;
  State::each_field(state, [&](const char* name, const auto& value) {
    ++found;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, at::Tensor>) {
      const auto wanted = from_bits(row["state"].at(name), row["dtype"]);
      EXPECT_TRUE(close(value, wanted, relative, 0)) << name << value << wanted;
    } else {
      const auto wanted = row["numbers"].at(name).template get<double>();
      EXPECT_NEAR(static_cast<double>(value), wanted, relative * wanted) << name;
    }
  });
  EXPECT_EQ(found, row["state"].size() + row["numbers"].size());
}

template <class Optimizer, auto Step>
void expect_recorded(const json& row) {
  SCOPED_TRACE(row["optimizer"].get<std::string>() + " " + row["dtype"].get<std::string>() + " " +
               row["options"].dump());
  using traits = optimizer_traits<Optimizer>;
  using state_type = typename traits::state;
  const auto options = options_of<typename traits::options>(row["options"]);
  const std::string dtype = row["dtype"];
  const bool single = dtype == "float32";
  const double most = single ? 1e-6 : 1e-14;
  const auto& inputs = recorded()["inputs"][dtype];
  const auto start = from_bits(inputs["start"], dtype);
  auto parameter = start.clone().requires_grad_();
  Optimizer optimizer({parameter}, options);
  // The function alone, without an optimizer around it.
  const auto other = start.clone().requires_grad_();
  state_type state;
  for (std::size_t i = 0; i < inputs["gradients"].size(); ++i) {
    const auto gradient = from_bits(inputs["gradients"][i], dtype);
    parameter.mutable_grad() = gradient.clone();
    optimizer.step();
    EXPECT_TRUE(torch::equal(parameter.grad(), gradient));
    const auto wanted = from_bits(row["parameter"][i], dtype);
    EXPECT_TRUE(close(parameter.detach(), wanted, most, most)) << i << parameter << wanted;
    Step(other, gradient, state, options);
    EXPECT_TRUE(torch::equal(other, parameter)) << i;
    EXPECT_FALSE(other.grad().defined());
  }
  EXPECT_FALSE(torch::equal(parameter, start));
  ASSERT_EQ(optimizer.state().size(), 1u);
  const auto& kept = *optimizer.state().begin()->second;
  expect_recorded_state(dynamic_cast<const state_type&>(kept), row, single);
  expect_recorded_state(state, row, single);
}

TEST(pytorch_steps, are_those_recorded) {
  std::map<std::string, int> runs;
  for (const auto& row : recorded()["runs"]) {
    const std::string name = row["optimizer"];
    ++runs[name];
    if (name == "Adadelta") expect_recorded<adadelta, &adadelta_step>(row);
    if (name == "Adamax") expect_recorded<adamax, &adamax_step>(row);
    if (name == "NAdam") expect_recorded<nadam, &nadam_step>(row);
    if (name == "Rprop") expect_recorded<rprop, &rprop_step>(row);
  }
  EXPECT_EQ(runs, (std::map<std::string, int>{
                      {"Adadelta", 13}, {"Adamax", 11}, {"NAdam", 13}, {"Rprop", 9}}));
}

at::Tensor all(double value, std::int64_t n = 3) { return torch::full({n}, value, torch::kDouble); }

template <class Error = invalid_argument>
std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

template <class Optimizer, class Options>
void expect_refusal(const Options& options, const std::string& text) {
  const auto p = all(1).requires_grad_();
  EXPECT_THAT(text_of([&] { Optimizer({p}, options); }), testing::HasSubstr(text));
  // Of a group as well.
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{p}, std::make_unique<Options>(options));
  EXPECT_THAT(text_of([&] { Optimizer(groups, Options()); }), testing::HasSubstr(text));
}

TEST(pytorch_steps, options_that_cannot_be_are_named_with_their_value) {
  const auto nan = std::nan("");
  expect_refusal<adadelta>(adadelta_options(-1), "lr of troupe::adadelta is -1");
  expect_refusal<adadelta>(adadelta_options(nan), "lr of troupe::adadelta is nan");
  expect_refusal<adadelta>(adadelta_options().rho(1.5), "rho of troupe::adadelta is 1.5");
  expect_refusal<adadelta>(adadelta_options().rho(-0.5), "rho of troupe::adadelta is -0.5");
  expect_refusal<adadelta>(adadelta_options().eps(-1), "eps of troupe::adadelta is -1");
  expect_refusal<adadelta>(adadelta_options().weight_decay(-1),
                           "weight_decay of troupe::adadelta is -1");
  expect_refusal<adamax>(adamax_options(-1), "lr of troupe::adamax is -1");
  expect_refusal<adamax>(adamax_options().eps(-1), "eps of troupe::adamax is -1");
  expect_refusal<adamax>(adamax_options().betas({1, 0.5}), "betas[0] of troupe::adamax is 1");
  expect_refusal<adamax>(adamax_options().betas({0.5, -1}), "betas[1] of troupe::adamax is -1");
  expect_refusal<adamax>(adamax_options().weight_decay(-1), "weight_decay of troupe::adamax is -1");
  expect_refusal<nadam>(nadam_options(-1), "lr of troupe::nadam is -1");
  expect_refusal<nadam>(nadam_options().eps(-1), "eps of troupe::nadam is -1");
  expect_refusal<nadam>(nadam_options().betas({-1, 0.5}), "betas[0] of troupe::nadam is -1");
  expect_refusal<nadam>(nadam_options().betas({0.5, 1}), "betas[1] of troupe::nadam is 1");
  expect_refusal<nadam>(nadam_options().weight_decay(-1), "weight_decay of troupe::nadam is -1");
  expect_refusal<nadam>(nadam_options().momentum_decay(-1),
                        "momentum_decay of troupe::nadam is -1");
  expect_refusal<rprop>(rprop_options(-1), "lr of troupe::rprop is -1");
  expect_refusal<rprop>(rprop_options().etas({0, 1.5}), "etas[0] of troupe::rprop is 0");
  expect_refusal<rprop>(rprop_options().etas({1, 1.5}), "etas[0] of troupe::rprop is 1");
  expect_refusal<rprop>(rprop_options().etas({0.5, 1}), "etas[1] of troupe::rprop is 1");
  // Those at the edge are right.
  const auto p = all(1).requires_grad_();
  adadelta({p}, adadelta_options(0).rho(1).eps(0));
  adamax({p}, adamax_options(0).betas({0, 0}).eps(0));
  nadam({p}, nadam_options(0).betas({0, 0}).eps(0).momentum_decay(0));
  rprop({p}, rprop_options(0));
  // Options of another optimizer.
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{p}, std::make_unique<adamax_options>());
  EXPECT_THAT(text_of([&] { nadam(groups, nadam_options()); }),
              testing::HasSubstr("have to be troupe::nadam_options"));
}

TEST(pytorch_steps, a_parameter_is_there_once) {
  const auto p = all(1).requires_grad_();
  const auto twice = testing::HasSubstr("a parameter of troupe::adamax is listed twice");
  const std::vector<at::Tensor> one{p}, two{p, p};
  EXPECT_THAT(text_of([&] { adamax{two}; }), twice);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(one);
  groups.emplace_back(one);
  EXPECT_THAT(text_of([&] { adamax{groups}; }), twice);
}

TEST(pytorch_steps, a_group_that_comes_later_has_options_of_the_class) {
  const auto p = all(1).requires_grad_(), q = all(1).requires_grad_();
  nadam optimizer({p});
  optimizer.add_param_group(OptimizerParamGroup({q}, std::make_unique<adamax_options>()));
  p.mutable_grad() = all(1);
  q.mutable_grad() = all(1);
  EXPECT_THAT(text_of([&] { optimizer.step(); }),
              testing::HasSubstr("have to be troupe::nadam_options"));
  EXPECT_TRUE(torch::equal(p, all(1)));
}

template <class Optimizer, auto Step>
void expect_no_sparse() {
  const auto first = all(1).requires_grad_(), second = all(2).requires_grad_();
  Optimizer optimizer({first, second});
  first.mutable_grad() = all(1);
  second.mutable_grad() = all(1).to_sparse();
  const auto wanted = testing::HasSubstr(std::string(type_name<Optimizer>()) +
                                         " does not support sparse gradients");
  EXPECT_THAT(text_of([&] { optimizer.step(); }), wanted);
  EXPECT_TRUE(torch::equal(first, all(1)));
  EXPECT_TRUE(torch::equal(second, all(2)));
  EXPECT_TRUE(optimizer.state().empty());
  typename optimizer_traits<Optimizer>::state state;
  EXPECT_THAT(text_of([&] { Step(second, second.grad(), state, {}); }), wanted);
  EXPECT_TRUE(torch::equal(second, all(2)));
}

TEST(pytorch_steps, sparse_gradients_are_refused_before_anything_is_stepped) {
  expect_no_sparse<adadelta, &adadelta_step>();
  expect_no_sparse<adamax, &adamax_step>();
  expect_no_sparse<nadam, &nadam_step>();
  expect_no_sparse<rprop, &rprop_step>();
}

// Two groups with options of their own, a parameter that is never stepped; saved after three steps
// by libtorch's means, loaded, and gone on with.
template <class Optimizer, class Options>
void expect_to_go_on(const Options& first, const Options& second) {
  struct trained {
    std::vector<at::Tensor> parameters;
    std::unique_ptr<Optimizer> optimizer;

    trained(const std::vector<at::Tensor>& values, const Options& a, const Options& b) {
      for (const auto& one : values) parameters.push_back(one.detach().clone().requires_grad_());
      std::vector<OptimizerParamGroup> groups;
      groups.emplace_back(std::vector<at::Tensor>{parameters[0]});
      groups.emplace_back(std::vector<at::Tensor>{parameters[1], parameters[2]},
                          std::make_unique<Options>(b));
      optimizer = std::make_unique<Optimizer>(groups, a);
    }
    // Evaluates the loss itself, from the second step on with other signs.
    void step(int i) {
      const auto loss = optimizer->step([&] {
        EXPECT_TRUE(at::GradMode::is_enabled());
        optimizer->zero_grad();
        auto out = parameters[0].pow(2).sum() + (parameters[1] * (i % 2 ? -1 : 2)).sum();
        out.backward();
        return out;
      });
      EXPECT_TRUE(loss.requires_grad());
    }
  };
  trained one({all(1), all(2, 4), all(3)}, first, second);
  for (int i = 0; i < 3; ++i) one.step(i);
  EXPECT_EQ(one.optimizer->state().size(), 2u);
  std::stringstream bytes;
  {
    torch::serialize::OutputArchive archive;
    one.optimizer->save(archive);
    archive.save_to(bytes);
  }
  trained two(one.parameters, Options(0.123), Options(0.123));
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  two.optimizer->load(archive);
  EXPECT_EQ(two.optimizer->param_groups()[0].options().get_lr(), first.lr());
  EXPECT_EQ(two.optimizer->param_groups()[1].options().get_lr(), second.lr());
  for (int i = 3; i < 6; ++i) {
    one.step(i);
    two.step(i);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_TRUE(torch::equal(one.parameters[k], two.parameters[k]))
          << type_name<Optimizer>() << " parameter " << k;
  }
  EXPECT_FALSE(torch::equal(one.parameters[0], all(1)));
  EXPECT_TRUE(torch::equal(one.parameters[2], all(3)));
}

TEST(pytorch_steps, go_on_from_an_archive) {
  expect_to_go_on<adadelta>(adadelta_options(0.5), adadelta_options(2).rho(0.5).maximize(true));
  expect_to_go_on<adamax>(adamax_options(0.1), adamax_options(0.2).betas({0.5, 0.5}));
  expect_to_go_on<nadam>(nadam_options(0.1),
                         nadam_options(0.2).decoupled_weight_decay(true).weight_decay(0.1));
  expect_to_go_on<rprop>(rprop_options(0.1), rprop_options(0.2).etas({0.25, 2}));
}

}  // namespace
}  // namespace troupe::test
