#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/actors/node/job.hpp"
#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/parameter_server/digits.hpp"
#include "troupe/apps/pipeline/comparison.hpp"
#include "troupe/apps/pipeline/local.hpp"
#include "troupe/apps/pipeline/pipelined.hpp"

namespace {

using namespace pipeline;
using testing::HasSubstr;

// ---- The cut

double dearest(const std::vector<double>& costs, const std::vector<stage_range>& stages) {
  double most = 0;
  for (const auto& one : stages)
    most = std::max(most, std::accumulate(costs.begin() + std::ptrdiff_t(one.first),
                                          costs.begin() + std::ptrdiff_t(one.end), 0.0));
  return most;
}

TEST(pipeline_cut, makes_the_dearest_stage_as_cheap_as_can_be) {
  EXPECT_EQ(cut({1, 1, 1, 1}, 2), (std::vector<stage_range>{{0, 2}, {2, 4}}));
  EXPECT_EQ(cut({9, 1, 1, 1}, 2), (std::vector<stage_range>{{0, 1}, {1, 4}}));
  EXPECT_EQ(cut({1, 2, 3}, 3), (std::vector<stage_range>{{0, 1}, {1, 2}, {2, 3}}));
  const std::vector<double> costs{3, 1, 4, 1, 5, 9, 2, 6};
  double best = 100;
  for (std::size_t a = 1; a < costs.size(); ++a)
    for (std::size_t b = a + 1; b < costs.size(); ++b)
      best = std::min(best, dearest(costs, {{0, a}, {a, b}, {b, costs.size()}}));
  EXPECT_EQ(dearest(costs, cut(costs, 3)), best);
}

TEST(pipeline_cut, needs_a_layer_for_each_stage) {
  EXPECT_THROW(cut({1, 2}, 0), troupe::invalid_argument);
  EXPECT_THAT(troupe::test::fault_of<troupe::invalid_argument>([] {
                cut({1, 2}, 3);
              }).text,
              HasSubstr("2 layers cannot be cut into 3 stages"));
}

TEST(pipeline_cut, gives_all_stages_about_the_same) {
  const hyperparameters chosen;
  const auto costs = layer_costs({chosen.width, chosen.blocks, 0});
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (const std::size_t stages : {2, 3})
    EXPECT_LT(dearest(costs, cut(costs, stages)), 1.03 * total / double(stages));
}

// ---- The network

hyperparameters small() {
  at::set_num_threads(1);
  return {.seed = 3, .width = 8, .blocks = 4, .batch_size = 12, .steps = 12, .learning_rate = 0.01};
}

// Blots whose place shows the class. A number that batches of 12 do not divide.
digits made_up_digits(std::int64_t count = 41) {
  const auto generator = common::make_generator(9);
  digits out{at::rand({count, 1, 8, 8}, generator),
             at::arange(count).floor_divide(3).remainder(10)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto place = out.labels[i].item<std::int64_t>();
    out.images[i][0].slice(0, place / 4 * 2, place / 4 * 2 + 3).slice(1, place % 4 * 2).add_(2);
  }
  return out;
}

TEST(pipeline_network, makes_the_same_of_an_image_in_any_batch) {
  const segment network({8, 4, 1}, 0, 6);
  const auto images = made_up_digits().images;
  std::vector<at::Tensor> parts;
  for (const auto& some : images.tensor_split(7))
    parts.push_back(network.forward(some, network.weights()));
  const auto whole = network.forward(images, network.weights());
  EXPECT_EQ(whole.sizes(), (std::vector<std::int64_t>{41, 10}));
  EXPECT_TRUE(at::cat(parts).allclose(whole, 1e-5, 1e-6));
}

TEST(pipeline_network, begins_alike_however_it_is_cut) {
  const segment whole({8, 4, 1}, 0, 6), first({8, 4, 1}, 0, 2), second({8, 4, 1}, 2, 6);
  auto cut_ones = first.weights();
  cut_ones.insert(cut_ones.end(), second.weights().begin(), second.weights().end());
  ASSERT_EQ(cut_ones.size(), whole.weights().size());
  for (std::size_t i = 0; i < cut_ones.size(); ++i)
    EXPECT_TRUE(cut_ones[i].equal(whole.weights()[i]));
  EXPECT_THROW(segment({8, 4, 1}, 2, 7), troupe::invalid_argument);
  EXPECT_THROW(segment({8, 4, 1}, 2, 2), troupe::invalid_argument);
}

TEST(pipeline_network, comes_in_some_sizes_only) {
  EXPECT_THROW(make_layers({6, 4, 1}), troupe::invalid_argument);
  EXPECT_THROW(make_layers({8, 0, 1}), troupe::invalid_argument);
}

// ---- The order of things

class noting_learner final : public learner {
public:
  void begin(const digits& batch) override { notes_ += 'b' + std::to_string(batch.size()); }
  double finish() override {
    notes_ += "f ";
    return 1;
  }
  at::Tensor scores(const at::Tensor& images) override { return images; }
  std::vector<at::Tensor> weights() override { return {}; }

  std::string notes_;
};

std::string notes_of(std::int64_t steps, std::size_t in_flight) {
  noting_learner noting;
  batches dealt(made_up_digits(10), 4, common::make_generator(1));
  std::int64_t images = 0;
  const auto losses = learn(noting, dealt, steps, in_flight, [&](double loss, std::int64_t size) {
    EXPECT_EQ(loss, 1);
    images += size;
  });
  EXPECT_EQ(losses.size(), std::size_t(steps));
  return noting.notes_ + std::to_string(images);
}

TEST(pipeline_order, has_so_many_batches_in_flight) {
  EXPECT_EQ(notes_of(4, 1), "b4f b4f b2f b4f 14");
  EXPECT_EQ(notes_of(4, 2), "b4b4f b2f b4f f 14");
  EXPECT_EQ(notes_of(4, 3), "b4b4b2f b4f f f 14");
  EXPECT_EQ(notes_of(1, 3), "b4f 4");
}

// The rule in other words: w[i + 1] = w[i] - step of g(w[max(0, i + 1 - in_flight)], batch i).
std::vector<float> losses_by_rule(const hyperparameters& chosen, std::size_t in_flight) {
  const segment network({chosen.width, chosen.blocks, chosen.seed}, 0,
                        std::size_t(chosen.blocks) + 2);
  batches dealt(made_up_digits(), chosen.batch_size, common::make_generator(chosen.seed));
  std::vector<std::vector<at::Tensor>> all{network.weights()};
  std::vector<at::Tensor> momentum(all[0].size());
  std::vector<float> losses;
  for (std::size_t i = 0; i < std::size_t(chosen.steps); ++i) {
    const auto& seen = all[i + 1 < in_flight ? 0 : i + 1 - in_flight];
    const auto batch = dealt.next();
    const auto loss = at::cross_entropy_loss(network.forward(batch.images, seen), batch.labels);
    losses.push_back(loss.item<float>());
    const auto gradients = torch::autograd::grad({loss}, seen);
    const at::NoGradGuard no_grad;
    auto next = all.back();
    for (std::size_t k = 0; k < next.size(); ++k) {
      momentum[k] = i == 0 ? gradients[k] : momentum[k] * chosen.momentum + gradients[k];
      next[k] = (next[k] - chosen.learning_rate * momentum[k]).requires_grad_();
    }
    all.push_back(next);
  }
  return losses;
}

struct trained {
  std::vector<float> losses;
  std::vector<std::vector<at::Tensor>> weights{};  // after each step
};

trained train(learner& who, const hyperparameters& chosen, std::size_t in_flight) {
  trained out;
  batches dealt(made_up_digits(), chosen.batch_size, common::make_generator(chosen.seed));
  out.losses = learn(who, dealt, chosen.steps, in_flight,
                     [&](double, std::int64_t) { out.weights.push_back(who.weights()); });
  return out;
}

TEST(pipeline_local, is_the_rule) {
  const auto chosen = small();
  std::vector<float> last;
  for (const std::size_t in_flight : {1, 2, 3}) {
    local_learner network(chosen);
    const auto losses = train(network, chosen, in_flight).losses;
    const auto rule = losses_by_rule(chosen, in_flight);
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], rule[i], 1e-5) << "step " << i << ", " << in_flight << " in flight";
    EXPECT_NE(losses, last);
    last = losses;
  }
}

// ---- Over nodes

using troupe::test::shut_down;

struct job_case {
  std::size_t stages;
  std::int64_t micro_batches;
  std::size_t in_flight;
};

void PrintTo(const job_case& one, std::ostream* out) {
  *out << one.stages << " stages, " << one.micro_batches << " micro-batches, " << one.in_flight
       << " in flight";
}

std::vector<std::string> names_for(std::size_t stages) {
  std::vector<std::string> names{"driver"};
  for (std::size_t i = 1; i <= stages; ++i) names.push_back("stage" + std::to_string(i));
  return names;
}

class pipeline_runs : public testing::TestWithParam<job_case> {};

TEST_P(pipeline_runs, are_step_by_step_those_of_one_process) {
  const auto& what = GetParam();
  const auto chosen = small();
  local_learner whole(chosen);
  const auto here = train(whole, chosen, what.in_flight);
  EXPECT_LT(here.losses.back(), here.losses.front());

  auto nodes = troupe::local_nodes(names_for(what.stages));
  {
    pipelined_learner cut_one(nodes[0], nodes[0].workers().others(), chosen, what.micro_batches);
    const auto there = train(cut_one, chosen, what.in_flight);
    ASSERT_EQ(there.losses.size(), here.losses.size());
    for (std::size_t i = 0; i < here.losses.size(); ++i) {
      ASSERT_NEAR(there.losses[i], here.losses[i], 1e-5) << "step " << i;
      ASSERT_EQ(there.weights[i].size(), here.weights[i].size());
      for (std::size_t k = 0; k < here.weights[i].size(); ++k)
        ASSERT_LE((there.weights[i][k] - here.weights[i][k]).abs().max().item<double>(), 1e-5)
            << "step " << i << ", weight " << k;
    }
    const auto test = made_up_digits(30);
    EXPECT_TRUE(cut_one.scores(test.images).allclose(whole.scores(test.images), 1e-4, 1e-5));
    EXPECT_EQ(accuracy(cut_one, test), accuracy(whole, test));
  }
  shut_down(nodes);
}

// 8 micro-batches are more than the 5 digits of the last batch of an order.
INSTANTIATE_TEST_SUITE_P(stages_and_micro_batches, pipeline_runs,
                         testing::Values(job_case{1, 3, 1}, job_case{2, 1, 1}, job_case{2, 2, 1},
                                         job_case{2, 5, 1}, job_case{2, 8, 1}, job_case{3, 1, 1},
                                         job_case{3, 4, 1}, job_case{6, 3, 1}, job_case{2, 1, 2},
                                         job_case{2, 4, 2}, job_case{3, 8, 2}, job_case{3, 3, 3}));

TEST(pipeline, names_a_stage_that_is_lost) {
  auto chosen = small();
  for (const std::size_t in_flight : {1, 2}) {
    auto nodes = troupe::local_nodes(names_for(2));
    {
      pipelined_learner network(nodes[0], nodes[0].workers().others(), chosen, 3);
      batches dealt(made_up_digits(), chosen.batch_size, common::make_generator(1));
      int steps = 0;
      const auto why = troupe::test::fault_of<troupe::peer_lost>([&] {
        learn(network, dealt, chosen.steps, in_flight, [&](double, std::int64_t) {
          if (++steps == 3) nodes[2].shutdown(false);
        });
      });
      EXPECT_EQ(steps, 3);
      EXPECT_EQ(why.node, "stage2");
    }
    nodes.pop_back();
    shut_down(nodes);
  }
}

// ---- The program

// Made-up digits in a file, as parameter_server::read_digits takes them. It goes with the object.
class digit_file {
public:
  digit_file() : path_(testing::TempDir() + "pipeline_test." + std::to_string(getpid())) {
    const auto made_up = made_up_digits(60);
    const auto pixels = made_up.images.mul(5).to(at::kLong).view({60, 64});
    std::ofstream file(path_);
    for (int i = 0; i < 60; ++i) {
      for (int k = 0; k < 64; ++k) file << pixels[i][k].item<std::int64_t>() << ',';
      file << made_up.labels[i].item<std::int64_t>() << '\n';
    }
  }
  digit_file(const digit_file&) = delete;
  digit_file& operator=(const digit_file&) = delete;
  ~digit_file() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

private:
  const std::string path_;
};

options quick(const std::string& data) {
  options opts;
  opts.chosen = small();
  opts.chosen.steps = 6;
  opts.repeats = 2;
  opts.data = data;
  return opts;
}

TEST(pipeline, compares_all_ways) {
  const digit_file data;
  auto nodes = troupe::local_nodes(names_for(2));
  std::ostringstream out;
  common::status_line line(out, false);
  const auto run = compare_on_ranks(nodes[0], quick(data.path()), line);
  std::vector<std::string> names;
  for (const auto& one : run.ways) {
    names.push_back(name_of(one.how));
    EXPECT_EQ(one.losses.size(), 6u);
    EXPECT_EQ(one.speeds.size(), 2u);
    EXPECT_GT(one.lowest_speed(), 0);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"one process", "1 micro-batch", "2 micro-batches",
                                      "4 micro-batches", "8 micro-batches",
                                      "one process, 2 in flight", "8 micro-batches, 2 in flight"}));
  EXPECT_TRUE(run.is_exact()) << run.difference();
  EXPECT_EQ(run.stages.size(), 2u);
  EXPECT_NEAR(run.stages[0] + run.stages[1], 1, 1e-9);
  EXPECT_THAT(out.str(), HasSubstr("in 2 stages ("));
  EXPECT_THAT(out.str(), HasSubstr(table(run)));
  EXPECT_THAT(out.str(), testing::EndsWith(verdict(run) + "\n"));
  shut_down(nodes);
}

TEST(pipeline, trains_without_a_network) {
  const digit_file data;
  auto opts = quick(data.path());
  opts.local = true;
  opts.in_flight = 1;
  std::ostringstream out;
  common::status_line line(out, false);
  const auto run = train_here(opts, line);
  ASSERT_EQ(run.ways.size(), 1u);
  EXPECT_EQ(run.stages, std::vector<double>{1});
  EXPECT_THAT(out.str(), HasSubstr("in 1 stage (100 %"));
}

TEST(pipeline, needs_ranks_layers_and_digits) {
  const digit_file data;
  std::ostringstream out;
  common::status_line line(out, false);
  auto alone = troupe::local_nodes({"driver"});
  EXPECT_THROW(compare_on_ranks(alone[0], quick(data.path()), line), troupe::invalid_argument);
  shut_down(alone);
  EXPECT_THROW(train_here(quick("/no/such/digits"), line), troupe::invalid_argument);
  auto many = troupe::local_nodes(names_for(7));
  EXPECT_THAT(troupe::test::fault_of<troupe::invalid_argument>([&] {
                compare_on_ranks(many[0], quick(data.path()), line);
              }).text,
              HasSubstr("6 layers cannot be cut into 7 stages"));
  shut_down(many);
}

std::vector<std::string> command(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"-n", std::to_string(ranks), std::string(TROUPE_APPS_DIR) + "/pipeline"});
  return arguments;
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(pipeline_program, has_the_losses_of_one_process) {
  const digit_file data;
  const auto folder = testing::TempDir() + "pipeline_program." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto json = folder + "/run.json", losses = folder + "/losses", plot = folder + "/plot.svg";
  const auto result = troupe::test::run_launcher(command(
      4, {"--data", data.path(), "--width", "8", "--blocks", "4", "--batch-size", "16", "--steps",
          "8", "--repeats", "1", "--json", json, "--losses", losses, "--plot", plot}));
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out_lines().back(), HasSubstr("the losses are those of one process"));
  const auto document = nlohmann::json::parse(content(json));
  EXPECT_LE(document["difference"].get<double>(), 1e-5);
  EXPECT_EQ(document["stages"].size(), 3u);
  EXPECT_EQ(document["ways"].size(), 7u);
  EXPECT_EQ(std::ranges::count(content(losses), '\n'), 8);
  EXPECT_THAT(content(plot), HasSubstr(">Pipeline: loss by step<"));
  std::filesystem::remove_all(folder);
}

TEST(pipeline_program, reports_what_it_lacks) {
  const auto alone = troupe::test::run_launcher(command(1, {}));
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.err, HasSubstr("start 2 ranks or more"));
  const auto blind = troupe::test::run_launcher(command(2, {"--data", "/no/such/digits"}));
  EXPECT_EQ(blind.code, 1);
  EXPECT_THAT(blind.err, HasSubstr("/no/such/digits"));
}

TEST(pipeline_program, fails_when_losses_differ) {
  const digit_file data;
  const auto result = troupe::test::run_launcher(
      command(3, {"--data", data.path(), "--width", "8", "--blocks", "4", "--batch-size", "16",
                  "--steps", "8", "--repeats", "1", "--tolerance", "1e-30"}));
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, HasSubstr("losses differ from those of one process by up to"));
}

}  // namespace
