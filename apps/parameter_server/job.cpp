#include "troupe/apps/parameter_server/job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/parameter_server/local.hpp"
#include "troupe/apps/parameter_server/trainer.hpp"

namespace parameter_server {

namespace {

constexpr double test_interval = 1;  // seconds between two tests of a model that is being trained

// How good a model is while it is being trained.
class interim_test {
public:
  interim_test(network& model, const digits& some) : model_(model), some_(some) {}

  const std::string& note(double seconds) {
    if (seconds >= last_ + test_interval) {
      last_ = seconds;
      note_ = fmt::format("{:.1f} % right", 100 * accuracy(model_, some_));
    }
    return note_;
  }

private:
  network& model_;
  const digits& some_;
  double last_ = 0;
  std::string note_;
};

std::int64_t steps_of(std::int64_t digits, const hyperparameters& chosen) {
  return chosen.epochs * ((digits + chosen.batch_size - 1) / chosen.batch_size);
}

void conclude(training_record& record, network& model, const digits& test,
              common::status_line& line) {
  record.accuracy = accuracy(model, test);
  record.tested = test.size();
  for (const auto& failure : record.failures) line.say("without trainer " + failure);
  line.say(verdict(record));
}

}  // namespace

training_record train_on_ranks(const troupe::node& node, const options& opts,
                               common::status_line& line) {
  const auto places = common::homes(node);
  const auto& chosen = opts.chosen;
  training_record record{.seed = chosen.seed,
                         .trainers = opts.trainers == 0 ? places.size() : opts.trainers};
  const auto count = static_cast<std::int64_t>(record.trainers);
  const auto parts = split(read_digits(opts.data));
  std::vector<digits> shares;
  std::int64_t steps = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    shares.push_back(share_of(parts.train, i, count));
    steps += steps_of(shares.back().size(), chosen);
  }

  network model(common::make_generator(chosen.seed));  // has the server's memory: no copy
  const auto server = node.make_rref(std::in_place_type<hogwild_server>,
                                     common::parameters_of(model), chosen.learning_rate);
  line.say(fmt::format("{} trainer{} on {} rank{} learn{} {} digits, a model of {} parameters",
                       count, count == 1 ? "" : "s", places.size(), places.size() == 1 ? "" : "s",
                       count == 1 ? "s" : "", common::with_commas(double(parts.train.size())),
                       common::with_commas(double(common::count_parameters(model)))));
  common::progress_bar bar(line, "training", "steps", steps);
  interim_test test(model, parts.test);
  const auto& updates = server.local_value();
  const auto group = common::run_group<&train>(
      node, record.trainers,
      [&](std::uint32_t i) {
        return training{server, shares[i], chosen.seed + 1 + i, chosen.epochs, chosen.batch_size};
      },
      [](std::uint32_t) {},
      [&](double seconds) { bar.update(updates.updates(), seconds, test.note(seconds)); });
  record.steps = updates.updates();
  record.seconds = group.seconds;
  record.failures = group.failures;
  bar.update(record.steps, record.seconds);
  conclude(record, model, parts.test, line);
  return record;
}

training_record train_here(const options& opts, common::status_line& line) {
  using clock = std::chrono::steady_clock;
  const auto parts = split(read_digits(opts.data));
  training_record record{.seed = opts.chosen.seed};
  common::progress_bar bar(line, "training", "steps", steps_of(parts.train.size(), opts.chosen));
  const auto start = clock::now();
  auto model = train_locally(parts.train, opts.chosen, [&](double loss) {
    record.seconds = std::chrono::duration<double>(clock::now() - start).count();
    bar.update(++record.steps, record.seconds, fmt::format("loss {:.3f}", loss));
  });
  conclude(record, model, parts.test, line);
  return record;
}

std::string verdict(const training_record& record) {
  return fmt::format("{:.1f} % of {} test digits, {:.1f} s", 100 * record.accuracy,
                     common::with_commas(double(record.tested)), record.seconds);
}

std::string to_json(const training_record& record) {
  const nlohmann::ordered_json document = {
      {"accuracy", record.accuracy},
      {"tested", record.tested},
      {"seconds", record.seconds},
      {"steps", record.steps},
      {"steps_per_second", record.seconds > 0 ? double(record.steps) / record.seconds : 0},
      {"trainers", record.trainers},
      {"seed", record.seed},
      {"failures", record.failures},
  };
  return document.dump(2) + "\n";
}

}  // namespace parameter_server
