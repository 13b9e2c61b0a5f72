// What a distributed optimizer saves, and what it makes of files that are not what it saved.

#include <sodium.h>
#include <torch/serialize.h>

#include <fstream>
#include <random>

#include "tests/optim/client/parameters.hpp"
#include "troupe/optim/state/state_file.hpp"

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

struct two_halves_options : stepwise_options<two_halves_options> {
  two_halves_options(double lr = 1) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TROUPE_EACH_FIELD(lr)
};

struct two_halves_state : stepwise_state<two_halves_state> {
  TORCH_ARG(at::Tensor, halves);
  TROUPE_EACH_FIELD(halves)
};

// Counts its steps twice in its state, and takes its time in between.
void two_halves_step(const at::Tensor&, const at::Tensor&, two_halves_state& state,
                     const two_halves_options&) {
  if (!state.halves().defined()) state.halves(all(0, 2));
  state.halves()[0] += 1;
  std::this_thread::sleep_for(1ms);
  state.halves()[1] += 1;
}

class two_halves : public stepwise_optimizer<two_halves, two_halves_options, two_halves_state,
                                             &two_halves_step> {
public:
  using stepwise_optimizer::stepwise_optimizer;
};

}  // namespace
}  // namespace troupe::test

template <>
struct troupe::optimizer_traits<troupe::test::two_halves>
    : stepwise_traits<troupe::test::two_halves_options, troupe::test::two_halves_state> {};

namespace troupe::test {
namespace {

class saved_states : public on_networks {};
TROUPE_ON_NETWORKS(saved_states);

TEST_P(saved_states, go_on_from_a_saved_state_on_other_nodes) {
  const temporary_folder folder;
  const auto file = (folder.path() / "state").string();
  auto nodes = start({"a", "b", "c"});
  const auto start_at = random_tensors(7, 5);
  const auto leaves = as_leaves(start_at);
  Adam local(leaves, AdamOptions(0.1).amsgrad(true));
  {
    const auto there = spread(nodes[0], {"b", "c", "a"}, start_at);
    const distributed_optimizer<Adam> optimizer(there, AdamOptions(0.1).amsgrad(true));
    for (int i = 0; i < 3; ++i) {
      auto xs = random_tensors(50 + i, 5);
      xs[4] = at::Tensor();  // never stepped: has no state
      step_both(nodes[0], optimizer, there, local, leaves, xs);
    }
    optimizer.set_lr(0.03);
    local.param_groups()[0].options().set_lr(0.03);
    optimizer.save(file);
  }
  std::vector<at::Tensor> now;
  for (const auto& one : leaves) now.push_back(one.detach().clone());
  const auto there = spread(nodes[0], {"c", "b"}, now);
  const distributed_optimizer<Adam> optimizer(there, AdamOptions(7));
  optimizer.load(file);
  EXPECT_EQ(optimizer.lr(), 0.03);
  for (int i = 0; i < 3; ++i) {
    step_both(nodes[0], optimizer, there, local, leaves, random_tensors(60 + i, 5));
    expect_equal(nodes[0], there, leaves);
  }
  const auto text = [&](const std::function<void()>& f) {
    return fault_of<invalid_argument>(f).text;
  };
  const distributed_optimizer<AdamW> other(there, AdamWOptions());
  EXPECT_THAT(text([&] { other.load(file); }), testing::HasSubstr("not of a torch::optim::AdamW"));
  const distributed_optimizer<Adam> fewer({there[0]}, AdamOptions());
  EXPECT_THAT(text([&] { fewer.load(file); }), testing::HasSubstr("5 parameters in 1 groups"));
  auto turned = there;
  std::swap(turned[0], turned[1]);
  const distributed_optimizer<Adam> wrong(turned, AdamOptions());
  EXPECT_THAT(text([&] { wrong.load(file); }),
              testing::HasSubstr("parameter 0 on b is double of the shape [3, 3], but its "
                                 "saved state is of parameter 0, double of the shape [2, 3]"));
  EXPECT_THAT(text([&] { other.load(file + "none"); }), testing::HasSubstr("cannot read"));
  shut_down(nodes);
}

at::Tensor squares(const rref<at::Tensor>& w) { return w.local_value().pow(4).sum(); }

// Two steps, saved, and two more: as many as without.
template <class Optimizer, class Options>
void expect_to_go_on(const node& here, const Options& options, const std::string& file) {
  const auto first = spread(here, {"b"}, {all(1), all(2, 4)});
  const auto pass = [&](const context& c, const parameters& over) {
    const auto loss = here.rpc_sync<&squares>("b", over[0]) + here.rpc_sync<&squares>("b", over[1]);
    c.backward({loss});
    return loss;
  };
  const auto steps = [&](const distributed_optimizer<Optimizer>& optimizer, const parameters& all) {
    for (int i = 0; i < 2; ++i) optimizer.step([&](const context& c) { return pass(c, all); });
  };
  const distributed_optimizer<Optimizer> one(first, options);
  steps(one, first);
  one.save(file);
  const auto second =
      spread(here, {"b"},
             {here.rpc_sync<&value_of>("b", first[0]), here.rpc_sync<&value_of>("b", first[1])});
  steps(one, first);
  const distributed_optimizer<Optimizer> two(second, Options(0.5));
  two.load(file);
  steps(two, second);
  expect_equal(here, second,
               {here.rpc_sync<&value_of>("b", first[0]), here.rpc_sync<&value_of>("b", first[1])},
               std::string(type_name<Optimizer>()));
}

TEST_P(saved_states, are_those_of_every_optimizer) {
  const temporary_folder folder;
  const auto file = (folder.path() / "state").string();
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  expect_to_go_on<SGD>(a, SGDOptions(0.01).momentum(0.9).nesterov(true), file);
  expect_to_go_on<Adam>(a, AdamOptions(0.1).betas({0.7, 0.8}), file);
  expect_to_go_on<AdamW>(a, AdamWOptions(0.1).amsgrad(true), file);
  expect_to_go_on<Adagrad>(a, AdagradOptions(0.1), file);
  expect_to_go_on<RMSprop>(a, RMSpropOptions(0.1).momentum(0.5).centered(true), file);
  expect_to_go_on<adadelta>(a, adadelta_options().rho(0.8).eps(1e-4), file);
  expect_to_go_on<adamax>(a, adamax_options(0.1).betas({0.7, 0.8}), file);
  expect_to_go_on<nadam>(a, nadam_options(0.1).momentum_decay(0.1).maximize(true), file);
  expect_to_go_on<rprop>(a, rprop_options(0.1).step_sizes({0.01, 0.2}), file);
  expect_to_go_on<LBFGS>(a, LBFGSOptions(0.1).max_iter(4).line_search_fn("strong_wolfe"), file);
  shut_down(nodes);
}

TEST_P(saved_states, are_not_half_written_by_hogwild_steps) {
  const temporary_folder folder;
  const auto file = (folder.path() / "state").string();
  auto nodes = start({"a", "b"});
  {
    const auto there = spread(nodes[0], {"b"}, {all(1)});
    const distributed_optimizer<two_halves> optimizer(there, two_halves_options(),
                                                      {.mode = step_mode::hogwild});
    std::atomic<bool> done = false;
    auto stepping = std::async(std::launch::async, [&] {
      for (int i = 0; i < 200; ++i) {
        const context c(nodes[0]);
        c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0])});
        optimizer.step(c);
      }
      done = true;
    });
    int torn = 0;
    while (!done) {
      optimizer.save(file);
      const auto saved = detail::read_state(file);
      const auto& state = saved.all.parameters.at(0).state;
      if (!state) continue;  // before the first step
      const auto halves = std::get<at::Tensor>(state->at("halves"));
      torn += halves[0].item<double>() != halves[1].item<double>();
    }
    stepping.get();
    EXPECT_EQ(torn, 0);
  }
  shut_down(nodes);
}

// ---- Files that are none.

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_bytes(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

class state_files : public testing::Test {
protected:
  state_files() {
    detail::optimizer_state state;
    state.optimizer = "torch::optim::Adam";
    state.group_of = {0, 0};
    state.all.groups = {detail::values_of(AdamOptions(0.5).amsgrad(true))};
    for (std::uint64_t i = 0; i < 2; ++i) {
      AdamParamState one;
      one.step(3);
      one.exp_avg(all(1, 1000)).exp_avg_sq(all(2, 5));
      state.all.parameters.push_back({i, {1000}, "double", detail::values_of(one)});
    }
    detail::write_state(file_, state);
    good_ = bytes_of(file_);
  }

  std::string refusal(const std::string& bytes) {
    write_bytes(file_, bytes);
    return fault_of<invalid_argument>([&] { detail::read_state(file_); }).text;
  }
  // As somebody would who wants to get past the hash.
  static std::string hashed(std::string bytes) {
    auto* raw = reinterpret_cast<unsigned char*>(bytes.data());
    crypto_generichash(raw + 16, 32, raw + 48, bytes.size() - 48, nullptr, 0);
    return bytes;
  }

  const temporary_folder folder_;
  const std::string file_ = (folder_.path() / "state").string();
  std::string good_;
};

TEST_F(state_files, come_back_as_they_were) {
  const auto state = detail::read_state(file_);
  EXPECT_EQ(hashed(good_), good_);
  EXPECT_EQ(state.optimizer, "torch::optim::Adam");
  ASSERT_EQ(state.all.parameters.size(), 2u);
  const auto& values = *state.all.parameters[1].state;
  EXPECT_EQ(std::get<std::int64_t>(values.at("step")), 3);
  EXPECT_TRUE(torch::equal(std::get<at::Tensor>(values.at("exp_avg")), all(1, 1000)));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".part"));
}

TEST_F(state_files, are_refused_when_they_are_cut_or_spoilt) {
  for (std::size_t size = 0; size < good_.size(); size += size < 400 ? 1 : 97)
    EXPECT_THAT(refusal(good_.substr(0, size)),
                testing::HasSubstr("is not the state of a distributed"))
        << size;
  EXPECT_THAT(refusal(good_ + "x"), testing::HasSubstr("more after its end"));
  for (std::size_t i = 0; i < good_.size(); i += i < 400 ? 1 : 97) {
    auto spoilt = good_;
    spoilt[i] = static_cast<char>(spoilt[i] ^ 0x10);
    EXPECT_THAT(refusal(spoilt), testing::HasSubstr("is not the state of a distributed")) << i;
  }
  auto damaged = good_;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_THAT(refusal(damaged), testing::HasSubstr("it is damaged"));
}

TEST_F(state_files, are_harmless_with_any_bytes_under_the_right_hash) {
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    auto spoilt = good_;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n)
      spoilt[48 + random() % (spoilt.size() - 48)] = static_cast<char>(random());
    write_bytes(file_, hashed(spoilt));
    try {
      const auto state = detail::read_state(file_);
      for (const auto& one : state.all.groups)
        (void)detail::options_from(detail::kind_of<Adam>, one);
      for (const auto& one : state.all.parameters)
        if (one.state) (void)detail::state_from(detail::kind_of<Adam>, *one.state, at::kCPU);
    } catch (const invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST_F(state_files, of_others_are_refused) {
  EXPECT_THAT(refusal("P5 640 480 255"), testing::HasSubstr("it does not begin like one"));
  EXPECT_THAT(refusal(""), testing::HasSubstr("it does not begin like one"));
  torch::save(all(1), file_);  // an archive of libtorch, which may bring a program along
  EXPECT_THAT(refusal(bytes_of(file_)), testing::HasSubstr("it does not begin like one"));
  EXPECT_THAT(fault_of<invalid_argument>([&] { detail::read_state(folder_.path().string()); }).text,
              testing::HasSubstr("cannot read"));
  EXPECT_THROW(detail::write_state((folder_.path() / "no" / "folder").string(), {}),
               invalid_argument);
}

TEST_F(state_files, with_values_of_other_types_are_refused) {
  auto values = detail::values_of(AdamOptions(0.5));
  values["betas"] = std::string("0.9");
  EXPECT_THAT(
      fault_of<invalid_argument>([&] { detail::options_from(detail::kind_of<Adam>, values); }).text,
      testing::HasSubstr("these are no options of torch::optim::Adam"));
  values.erase("betas");
  values.erase("lr");
  EXPECT_THROW(detail::options_from(detail::kind_of<Adam>, values), invalid_argument);
  EXPECT_THROW(detail::state_from(detail::kind_of<Adam>, {{"exp_avg", 1.0}}, at::kCPU),
               invalid_argument);
}

}  // namespace
}  // namespace troupe::test
