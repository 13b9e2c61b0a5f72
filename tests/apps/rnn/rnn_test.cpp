#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/rnn/clipping.hpp"
#include "troupe/apps/rnn/model.hpp"
#include "troupe/apps/rnn/training.hpp"
#include "troupe/apps/rnn/words.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using namespace rnn;
using testing::HasSubstr;

void shut_down(std::vector<troupe::node>& nodes) {
  std::vector<std::jthread> threads;
  for (auto& node : nodes) threads.emplace_back([&node] { node.shutdown(); });
}

// A text with something to learn: in each line the second word follows from the first. It goes with
// the object.
class short_text {
public:
  short_text() : path_(testing::TempDir() + "rnn_test." + std::to_string(getpid())) {
    std::ofstream file(path_);
    for (int i = 0; i < 2000; ++i)
      file << "the " << (i * 7919 % 61) << " has " << (i * 7919 % 61 * 5 % 61) << " and no more.\n";
  }
  short_text(const short_text&) = delete;
  short_text& operator=(const short_text&) = delete;
  ~short_text() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

private:
  const std::string path_;
};

options quick(const std::string& text) {
  at::set_num_threads(1);
  options opts;
  opts.text = text;
  opts.chosen = {.embedding = 16, .hidden = 16, .batch_size = 8, .length = 10, .epochs = 2};
  opts.max_steps = 300;
  return opts;
}

training_record train_on(std::vector<std::string> names, const options& opts) {
  auto nodes = troupe::local_nodes(std::move(names));
  std::ostringstream out;
  common::status_line line(out, false);
  auto record = train_on_ranks(nodes[0], opts, line);
  shut_down(nodes);
  return record;
}

training_record train_in_one(const options& opts, std::ostream& out) {
  common::status_line line(out, false);
  return train_here(opts, line);
}

void expect_equal(const training_record& one, const training_record& other) {
  ASSERT_EQ(one.losses.size(), other.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    ASSERT_NEAR(one.losses[i], other.losses[i], 1e-6) << "step " << i;
  ASSERT_EQ(one.epochs.size(), other.epochs.size());
  for (std::size_t i = 0; i < one.epochs.size(); ++i) {
    EXPECT_NEAR(one.epochs[i].perplexity, other.epochs[i].perplexity, 1e-5);
    EXPECT_EQ(one.epochs[i].learning_rate, other.epochs[i].learning_rate);
  }
}

class rnn_runs : public testing::TestWithParam<std::pair<std::int64_t, double>> {};

TEST_P(rnn_runs, are_step_by_step_those_of_one_process) {
  const short_text text;
  auto opts = quick(text.path());
  std::tie(opts.chosen.layers, opts.chosen.dropout) = GetParam();
  std::ostringstream out;
  const auto here = train_in_one(opts, out);
  EXPECT_EQ(here.losses.size(), 300u);
  EXPECT_LT(here.losses.back(), here.losses.front() / 2);
  expect_equal(here, train_on({"trainer", "ps"}, opts));
  expect_equal(here, train_on({"trainer", "table", "decoder"}, opts));
}

INSTANTIATE_TEST_SUITE_P(layers_and_dropout, rnn_runs,
                         testing::Values(std::pair(1, 0.0), std::pair(2, 0.2)));

TEST(rnn, learns_more_than_how_frequent_words_are) {
  const short_text text;
  auto opts = quick(text.path());
  opts.max_steps = 0;
  std::ostringstream out;
  const auto record = train_in_one(opts, out);
  EXPECT_EQ(record.epochs.size(), 2u);
  EXPECT_GT(record.unigram_perplexity, 10);
  EXPECT_LT(record.perplexity(), record.unigram_perplexity / 3);
  EXPECT_THAT(out.str(), HasSubstr("on 1 rank learns 17,100 tokens"));
  EXPECT_THAT(out.str(), HasSubstr("epoch 2: perplexity "));
  EXPECT_THAT(out.str(), testing::EndsWith(verdict(record) + "\n"));
}

TEST(rnn, takes_smaller_steps_after_an_epoch_of_no_use) {
  const short_text text;
  auto opts = quick(text.path());
  opts.max_steps = 0;
  opts.chosen.epochs = 4;
  opts.chosen.learning_rate = 1e-9;  // rounding alone: nothing is learnt
  std::ostringstream out;
  const auto record = train_in_one(opts, out);
  ASSERT_EQ(record.epochs.size(), 4u);
  EXPECT_EQ(record.epochs[0].learning_rate, 1e-9);
  EXPECT_LT(record.epochs[3].learning_rate, 1e-9);
}

TEST(rnn_clipping, is_that_of_libtorch) {
  const auto generator = common::make_generator(5);
  std::vector<at::Tensor> mine, theirs;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{7}, {3, 4}, {2, 1, 5}}) {
    theirs.push_back(at::zeros(shape).requires_grad_());
    theirs.back().mutable_grad() = at::randn(shape, generator);
    mine.push_back(theirs.back().grad().clone());
  }
  for (const double largest : {0.25, 100.0}) {
    torch::nn::utils::clip_grad_norm_(theirs, largest);
    std::vector<double> norms;
    for (const auto& one : mine) norms.push_back(squared_norm(one));
    scale(mine, clip_factor(norms, largest));
    for (std::size_t i = 0; i < mine.size(); ++i)
      EXPECT_TRUE(mine[i].allclose(theirs[i].grad(), 1e-6, 1e-8));
  }
}

TEST(rnn_clipping, adds_up_what_a_sparse_gradient_has_for_one_row) {
  const auto rows = at::tensor({1, 0, 1}, at::kLong).view({1, 3});
  const auto values = at::tensor({1., 2., 3.}, at::kFloat).view({3, 1});
  EXPECT_NEAR(squared_norm(at::sparse_coo_tensor(rows, values, {4, 1})), 4 * 4 + 2 * 2, 1e-5);
  EXPECT_EQ(squared_norm(at::Tensor()), 0);
}

at::Tensor made_leaf() { return at::ones({2}).requires_grad_(); }

at::Tensor times_three(const troupe::rref<at::Tensor>& leaf) { return leaf.local_value() * 3; }

std::vector<float> gradient_of(std::uint64_t context, const troupe::rref<at::Tensor>& leaf) {
  const auto gradient =
      troupe::autograd::get_gradients(troupe::this_node(), context)[leaf.local_value()];
  return {gradient.data_ptr<float>(), gradient.data_ptr<float>() + gradient.numel()};
}

TEST(rnn_clipping, counts_the_gradients_of_all_nodes) {
  auto nodes = troupe::local_nodes({"here", "there"});
  {
    const auto mine = nodes[0].make_rref(at::full({1}, 4.0, at::kFloat).requires_grad_());
    const auto theirs = nodes[0].remote<&made_leaf>("there");
    const clipper clip(nodes[0], {mine, theirs}, 0.5);
    const troupe::autograd::context context(nodes[0]);
    const auto y = nodes[0].rpc_sync<&times_three>("there", theirs);
    context.backward({y.sum() + 4 * mine.local_value().sum()});
    clip.clip(context);
    const double factor = 0.5 / std::sqrt(4. * 4 + 3 * 3 + 3 * 3);
    EXPECT_NEAR(context.get_gradients()[mine.local_value()].item<double>(), 4 * factor, 1e-6);
    for (const float one : nodes[0].rpc_sync<&gradient_of>("there", context.id(), theirs))
      EXPECT_NEAR(one, 3 * factor, 1e-6);
  }
  shut_down(nodes);
}

TEST(rnn, needs_a_rank_and_a_text) {
  const short_text text;
  std::ostringstream out;
  common::status_line line(out, false);
  auto alone = troupe::local_nodes({"trainer"});
  EXPECT_THROW(train_on_ranks(alone[0], quick(text.path()), line), troupe::invalid_argument);
  EXPECT_THROW(train_here(quick("/no/such/book"), line), troupe::invalid_argument);
  shut_down(alone);
}

TEST(rnn, reports_its_numbers) {
  training_record record{.seed = 7, .ranks = 2, .words = 50, .unigram_perplexity = 300.04};
  record.tokens = 1200;
  record.seconds = 2;
  record.epochs = {{20, 150, 90.26, 600}, {20, 80, 95, 600}};
  record.losses = {4.5F, 0.1F};
  EXPECT_EQ(verdict(record),
            "perplexity 90.3, of a unigram model 300.0; 1,200 tokens in 2.0 s, 600/s");
  EXPECT_EQ(epoch_text(record),
            "epoch 2: perplexity 95.0, in training 80.0, rate 20, 600 tokens/s");
  EXPECT_EQ(losses_text(record), "4.5\n0.1\n");
  const auto document = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(document["perplexity"], 90.26);
  EXPECT_EQ(document["tokens_per_second"], 600);
  EXPECT_EQ(document["steps"], 2);
  EXPECT_EQ(document["epochs"][1]["perplexity"], 95);
}

TEST(rnn, draws_its_curves) {
  training_record record{.unigram_perplexity = 100};
  for (int i = 0; i < 600; ++i) record.losses.push_back(i < 2 ? std::log(400.0F) : std::log(50.0F));
  record.epochs = {{20, 80, 64, 600, 300}, {20, 50, 45, 600, 600}};
  const auto svg = to_svg(record);
  for (const char* part : {">unigram model: 100.0<", ">in training<", ">text held out", ">Step<",
                           ">Perplexity<", ">600<", ">50<", ">200<"})
    EXPECT_THAT(svg, testing::HasSubstr(part));
  EXPECT_THAT(svg, testing::HasSubstr("M423.0 "));  // the first epoch ends in the middle
  EXPECT_THAT(svg, testing::HasSubstr("M776.0 "));
  // Pairs of steps: the first is at 400, on an axis from 40.5 to 440.
  const double first = 408 - 324 * std::log(400 / 40.5) / std::log(440 / 40.5);
  EXPECT_THAT(svg, testing::HasSubstr(fmt::format("points=\"72.4,{:.1f} ", first)));
  record.losses[1] = 709.7F;  // of which the mean alone is finite
  EXPECT_THAT(to_svg(record), testing::HasSubstr(">10,000<"));
  record.losses.assign(3, std::numeric_limits<float>::quiet_NaN());  // a training that went wrong
  record.epochs = {{20, NAN, NAN, 600, 3}};
  EXPECT_THAT(to_svg(record), testing::Not(testing::HasSubstr("nan")));
}

std::optional<options> parse(std::vector<const char*> arguments, int& exit_code) {
  arguments.insert(arguments.begin(), "rnn");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), exit_code);
}

TEST(rnn_options, are_read) {
  int exit_code = -1;
  auto opts = parse({}, exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->text, default_text_file());
  EXPECT_EQ(opts->max_steps, 0);
  EXPECT_FALSE(opts->local);
  opts = parse({"--text",
                "t",
                "--vocabulary",
                "9",
                "--embedding",
                "8",
                "--hidden",
                "7",
                "--layers",
                "6",
                "--dropout",
                "0.5",
                "--seed",
                "4",
                "--epochs",
                "3",
                "--max-steps",
                "2",
                "--batch-size",
                "11",
                "--length",
                "12",
                "--learning-rate",
                "13",
                "--clip",
                "14",
                "--local",
                "--json",
                "j",
                "--losses",
                "l",
                "--plot",
                "p"},
               exit_code);
  ASSERT_TRUE(opts);
  const auto& chosen = opts->chosen;
  EXPECT_EQ((std::vector{chosen.vocabulary, chosen.embedding, chosen.hidden, chosen.layers}),
            (std::vector<std::int64_t>{9, 8, 7, 6}));
  EXPECT_EQ((std::vector{chosen.dropout, chosen.learning_rate, chosen.clip}),
            (std::vector{0.5, 13.0, 14.0}));
  EXPECT_EQ((std::vector{chosen.batch_size, chosen.length, opts->max_steps}),
            (std::vector<std::int64_t>{11, 12, 2}));
  EXPECT_EQ(chosen.seed, 4u);
  EXPECT_EQ(chosen.epochs, 3);
  EXPECT_EQ(opts->text + opts->json + opts->losses + opts->plot, "tjlp");
  EXPECT_TRUE(opts->local);
}

TEST(rnn_options, refuse_what_makes_no_sense) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{
           {"word"}, {"--dropout", "1"}, {"--layers", "0"}, {"--clip", "0"}, {"--epochs", "x"}}) {
    int exit_code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(arguments, exit_code));
    EXPECT_NE(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(exit_code, 2);
  }
}

troupe::test::launch_result launched(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"-n", std::to_string(ranks), std::string(TROUPE_APPS_DIR) + "/rnn"});
  return troupe::test::run_launcher(std::move(arguments));
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The book itself, two processes, and all the program's output.
TEST(rnn_program, beats_a_unigram_model_on_a_real_text) {
  if (!std::filesystem::exists(default_text_file()))
    GTEST_SKIP() << default_text_file() << " is not there: `make setup` fetches it";
  const auto folder = testing::TempDir() + "rnn_program." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto json = folder + "/run.json", losses = folder + "/losses", plot = folder + "/plot.svg";
  const auto result =
      launched(2, {"--vocabulary", "1000", "--embedding", "16", "--hidden", "32", "--max-steps",
                   "300", "--json", json, "--losses", losses, "--plot", plot});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out_lines().back(),
              testing::ContainsRegex("perplexity [0-9.]+, of a unigram model [0-9.]+; "));
  const auto document = nlohmann::json::parse(content(json));
  EXPECT_LT(document["perplexity"].get<double>(),
            0.6 * document["unigram_perplexity"].get<double>());
  EXPECT_EQ(document["steps"], 300);
  EXPECT_EQ(document["vocabulary"], 1000);
  EXPECT_GT(document["tokens_per_second"], 0);
  EXPECT_EQ(std::ranges::count(content(losses), '\n'), 300);
  EXPECT_THAT(content(plot), testing::HasSubstr(">300<"));
  std::filesystem::remove_all(folder);
}

TEST(rnn_program, reports_what_it_lacks) {
  const auto alone = launched(1, {});
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.err, HasSubstr("start 2 ranks or more"));
  const auto blind = launched(2, {"--text", "/no/such/book"});
  EXPECT_EQ(blind.code, 1);
  EXPECT_THAT(blind.err, HasSubstr("/no/such/book"));
}

}  // namespace
