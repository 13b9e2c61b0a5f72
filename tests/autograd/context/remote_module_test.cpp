// Modules that live on another node.

#include <torch/nn/functional/linear.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <troupe/autograd.hpp>
#include <troupe/remote_module.hpp>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

class remote_modules : public on_networks {};
TROUPE_ON_NETWORKS(remote_modules);

// Its forward takes what is no tensor, and gives what is none.
class scaled_sum : public torch::nn::Module {
public:
  explicit scaled_sum(double scale) : scale_(register_parameter("scale", torch::full({1}, scale))) {
    if (scale == 0) throw std::domain_error("a scale of nothing");
    inner_ = register_module("inner", torch::nn::Linear(2, 2));
  }
  double forward(const at::Tensor& x, int times, const std::string& how) {
    if (how == "refuse") throw std::out_of_range("refused");
    return times * scale_.item<double>() * x.sum().item<double>();
  }
  double scale() const { return scale_.item<double>(); }
  bool training() const { return is_training(); }

private:
  at::Tensor scale_;
  torch::nn::Linear inner_{nullptr};
};

void set_to_zero(at::Tensor& x) {
  const at::NoGradGuard off;
  x.zero_();
}

double call_elsewhere(remote_module<scaled_sum> module, at::Tensor x) {
  return module.forward(x, 1, "as usual");
}

TEST_P(remote_modules, forward_is_that_of_the_module_where_it_lives) {
  auto nodes = start({"a", "b"});
  {
    const remote_module<torch::nn::LinearImpl> layer(nodes[0], "b/cpu", 3, 2);
    const auto parameters = layer.remote_parameters();
    ASSERT_EQ(parameters.size(), 2u);
    EXPECT_EQ(parameters[0].owner_name(), "b");
    const auto x = torch::rand({4, 3});
    const auto wanted =
        torch::nn::functional::linear(x, parameters[0].to_here(), parameters[1].to_here());
    EXPECT_TRUE(torch::equal(layer.forward(x), wanted));
    EXPECT_TRUE(torch::equal(layer.forward_async(x).get(), wanted));
    // The references are to the parameters themselves.
    parameters[0].rpc_sync<&set_to_zero>();
    EXPECT_TRUE(torch::equal(layer.forward(x), parameters[1].to_here().expand({4, 2})));
  }
  EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 0; }));
  shut_down(nodes);
}

TEST_P(remote_modules, any_types_go_in_and_out_and_other_functions_by_the_rref) {
  auto nodes = start({"a", "b", "c"});
  {
    const remote_module<scaled_sum> module(nodes[0], "rank:1", 3.0);
    EXPECT_EQ(module.forward(torch::ones({2}), 2, "as usual"), 12);
    EXPECT_EQ(module.module_rref().rpc_sync<&scaled_sum::scale>(), 3);
    EXPECT_EQ(nodes[0].rpc_sync<&call_elsewhere>("c", module, torch::ones({2})), 6);
    EXPECT_EQ(module.remote_parameters(false).size(), 1u);
    EXPECT_EQ(module.remote_parameters().size(), 3u);
    EXPECT_TRUE(module.module_rref().rpc_sync<&scaled_sum::training>());
    module.eval();
    EXPECT_FALSE(module.module_rref().rpc_sync<&scaled_sum::training>());
    module.train();
    EXPECT_TRUE(module.module_rref().rpc_sync<&scaled_sum::training>());
  }
  shut_down(nodes);
}

// What behaves otherwise in training: batch norm keeps means of what it has seen, and dropout
// draws.
class restless : public torch::nn::Module {
public:
  restless() {
    const at::NoGradGuard off;
    linear_ = register_module("linear", torch::nn::Linear(4, 6));
    norm_ = register_module("norm", torch::nn::BatchNorm1d(6));
    dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
    linear_->weight.copy_(torch::linspace(-1, 1, 24).view({6, 4}));
    linear_->bias.fill_(0.1);
  }
  at::Tensor forward(const at::Tensor& x) { return dropout_(norm_(linear_(x).relu())); }
  at::Tensor mean_seen() const { return norm_->running_mean; }
  at::Tensor gradient_of(std::int64_t i, std::uint64_t id) const {
    return autograd::get_gradients(this_node(), id)[parameters().at(i)];
  }

private:
  torch::nn::Linear linear_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};

TEST_P(remote_modules, train_and_evaluate_as_they_do_here) {
  auto nodes = start({"a", "b"});
  {
    restless here;
    const remote_module<restless> there(nodes[0], "b");
    const auto there_alone = there.module_rref();
    for (int step = 0; step < 6; ++step) {
      const bool training = step % 3 != 2;
      here.train(training);
      there.train(training);
      const auto x = torch::rand({8, 4}), w = torch::rand({8, 6});
      const auto mine = x.clone().requires_grad_(), theirs = x.clone().requires_grad_();
      here.zero_grad();
      torch::manual_seed(step);  // both nodes draw from this process' generator
      const auto y = here.forward(mine);
      (y * w).sum().backward();
      torch::manual_seed(step);
      const autograd::context c(nodes[0]);
      const auto z = there.forward(theirs);
      EXPECT_TRUE(torch::equal(y, z)) << step;
      c.backward({(z * w).sum()});
      EXPECT_TRUE(torch::equal(c.get_gradients()[theirs], mine.grad())) << step;
      const auto parameters = here.parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(torch::equal(there_alone.rpc_sync<&restless::gradient_of>(i, c.id()),
                                 parameters[i].grad()))
            << step << ", parameter " << i;
      EXPECT_TRUE(torch::equal(there_alone.rpc_sync<&restless::mean_seen>(), here.mean_seen()));
    }
  }
  shut_down(nodes);
}

TEST_P(remote_modules, errors_are_thrown_at_the_caller) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  using module = remote_module<scaled_sum>;
  EXPECT_THROW(module(a, "nobody", 1.0), unknown_worker);
  EXPECT_THROW(module(a, "rank:7", 1.0), unknown_worker);
  for (const auto* no : {"rank:", "rank:-1", "rank:1x", "b/gpu", "b/", "b/cpu/cpu", "b/cuda:x"})
    EXPECT_THROW(module(a, no, 1.0), invalid_argument) << no;
  try {
    module(a, "b/cuda:99", 1.0).forward(at::Tensor(), 1, "");
    FAIL() << "a module on a GPU that is not there";
  } catch (const remote_error& e) {
    EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("frame #0")));  // libtorch's trace
  }
  try {
    module(a, "b", 0.0).forward(torch::ones({1}), 1, "");
    FAIL() << "a module that cannot be made";
  } catch (const remote_error& e) {
    EXPECT_EQ(e.fault().type, "std::domain_error");
    EXPECT_EQ(e.fault().node, "b");
  }
  EXPECT_THROW(module(a, "b", 1.0).forward(torch::ones({1}), 1, "refuse"), remote_error);
  EXPECT_THROW(module().forward(torch::ones({1}), 1, ""), invalid_argument);
  EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 0; }));
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
