#include "troupe/apps/weight_sync/trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/common/worker_group.hpp"

namespace weight_sync {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// A network that learns to do what another one does.
class learner {
public:
  explicit learner(const options& opts)
      : opts_(opts),
        weights_(make_weights(opts.shape, opts.seed)),
        teacher_(make_weights(opts.shape, opts.seed + 1)),
        generator_(common::make_generator(opts.seed + 2)) {
    for (auto& [name, weight] : weights_) weight.requires_grad_();
  }

  const named_weights& weights() const { return weights_; }

  /// One step; writes to the weights in place. Returns the loss before it.
  double step() {
    const auto x = at::randn({opts_.batch_size, opts_.shape.width}, generator_);
    const auto loss = at::mse_loss(forward(weights_, x), forward(teacher_, x));
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& [name, weight] : weights_) {
      weight.sub_(weight.grad(), opts_.learning_rate * double(opts_.shape.width));
      weight.mutable_grad().reset();
    }
    return loss.item<double>();
  }

private:
  const options& opts_;
  named_weights weights_;
  const named_weights teacher_;
  at::Generator generator_;
};

class run {
public:
  run(const troupe::node& node, const options& opts, common::status_line& line)
      : node_(node), opts_(opts), line_(line), places_(common::homes(node)) {
    record_.shape = opts.shape;
    record_.steps = opts.steps;
    record_.samplers = places_.size();
    record_.wait_bytes = static_cast<std::uint64_t>(opts.shape.parameters()) * sizeof(float);
  }

  run_record all() {
    line_.say(
        fmt::format("a network of {} parameters learns in {} steps, and {} sampler{} its weights",
                    common::with_commas(double(opts_.shape.parameters())), opts_.steps,
                    places_.size(), places_.size() == 1 ? " follows" : "s follow"));
    common::progress_bar bar(line_, "trained", "steps", 2 * opts_.steps + opts_.waits);
    bar_ = &bar;
    for (const auto by : {method::pull, method::push}) record_.methods.push_back(follow(by));
    measure_waits();
    line_.say(table(record_));
    line_.say(verdict(record_));
    return record_;
  }

private:
  void show(const std::string& note) {
    const double seconds = seconds_since(start_);
    bar_->update(++done_, seconds, bar_->due(seconds) ? note : "");
  }

  method_record follow(method by) {
    method_record out;
    out.by = by;
    learner network(opts_);
    const auto set = node_.make_rref(std::in_place_type<troupe::parameter_set>, network.weights(),
                                     opts_.readers_wait);
    auto& published = set.local_value();
    std::map<std::uint64_t, std::int64_t> digests{{1, digest(network.weights())}};
    set_newest_version(1);
    const sample_task task{
        by, set, opts_.batch_size, std::uint64_t(opts_.steps) + 1, opts_.seed, opts_.readers_wait};
    std::vector<troupe::future<sampler_record>> running;
    for (const auto& where : places_) {
      if (by == method::push) node_.rpc_sync<&take>(where, std::uint64_t{0}, named_weights{});
      running.push_back(
          node_.rpc_async<&sample>(where, task, troupe::timeout(std::chrono::seconds(0))));
    }
    const auto start = clock::now();
    for (std::int64_t i = 0; i < opts_.steps; ++i) {
      published.begin_update();
      const double loss = network.step();
      if (i == 0) out.first_loss = loss;
      out.last_loss = loss;
      const auto version = std::uint64_t(i) + 2;
      digests[version] = digest(network.weights());
      const auto stepped = clock::now();
      set_newest_version(version);
      published.commit();
      if (by == method::push) send(version, network.weights());
      out.publishing.push_back(seconds_since(stepped));
      show(fmt::format("{}: loss {:.4f}", name_of(by), loss));
    }
    out.seconds = seconds_since(start);
    for (const auto& one : running) {
      out.samplers.push_back(one.get());
      for (const auto& [version, seen] : out.samplers.back().digests)
        if (digests.at(version) != seen) ++out.wrong;
    }
    const auto counted = published.counts();
    out.copies = counted.copies;
    out.copied_bytes = counted.copied_bytes;
    return out;
  }

  void send(std::uint64_t version, const named_weights& weights) {
    named_weights plain;
    for (const auto& [name, weight] : weights) plain.emplace_back(name, weight.detach());
    std::vector<troupe::future<void>> all;
    all.reserve(places_.size());
    for (const auto& where : places_) all.push_back(node_.rpc_async<&take>(where, version, plain));
    for (const auto& one : all) one.get();
  }

  // Between commits the trainer writes to all weights, as a step would, and computes nothing.
  void measure_waits() {
    auto weights = make_weights(opts_.shape, opts_.seed);
    const auto set =
        node_.make_rref(std::in_place_type<troupe::parameter_set>, weights, opts_.readers_wait);
    auto& published = set.local_value();
    const auto last = std::uint64_t(opts_.waits) + 1;
    std::vector<troupe::future<version_times>> running;
    running.reserve(places_.size());
    for (const auto& where : places_)
      running.push_back(node_.rpc_async<&wait_for_versions>(
          where, set, last, troupe::timeout(std::chrono::seconds(0))));
    std::vector<committed_version> commits;
    for (std::uint64_t version = 2; version <= last; ++version) {
      published.begin_update();
      for (auto& [name, weight] : weights) weight.mul_(0.999);
      await(running, [&] { return published.counts().waiting == places_.size(); });
      if (!commits.empty()) commits.back().all_ask_again = now_ns();
      commits.push_back({now_ns(), 0});
      published.commit();
      show("samplers wait");
    }
    await(running, [&] { return std::ranges::all_of(running, &is_ready); });
    commits.back().all_ask_again = now_ns();
    record_.copies_while_waiting = published.counts().copies;
    record_.waits = waits_of(commits, running);
  }

  struct committed_version {
    std::int64_t at = 0;
    std::int64_t all_ask_again = 0;  // or have ended
  };
  static bool is_ready(const troupe::future<version_times>& one) { return one.ready(); }

  // Throws what a sampler has failed with. Looks seldom: the samplers need the processors.
  void await(const std::vector<troupe::future<version_times>>& running,
             const std::function<bool()>& done) const {
    const auto start = clock::now();
    while (!done()) {
      for (const auto& one : running)
        if (one.ready()) one.get();
      if (seconds_since(start) > opts_.limit)
        throw troupe::peer_lost(
            fmt::format("a sampler has not asked for the next version within {} s", opts_.limit));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Seconds from each commit until the last sampler had its version. Another host's clock is
  // another one: then until all have asked for the next.
  static std::vector<double> waits_of(const std::vector<committed_version>& commits,
                                      const std::vector<troupe::future<version_times>>& samplers) {
    std::vector<std::int64_t> last(commits.size(), 0);
    for (const auto& one : samplers)
      for (const auto& [version, at] : one.get()) {
        if (version < 2) continue;  // what there was before
        const auto& commit = commits.at(version - 2);
        const bool same_clock = at >= commit.at && at <= commit.all_ask_again;
        last[version - 2] = std::max(last[version - 2], same_clock ? at : commit.all_ask_again);
      }
    std::vector<double> out;
    for (std::size_t i = 0; i < commits.size(); ++i)
      out.push_back(1e-9 * double(last[i] - commits[i].at));
    return out;
  }

  const troupe::node& node_;
  const options& opts_;
  common::status_line& line_;
  const std::vector<troupe::worker_info> places_;
  const clock::time_point start_ = clock::now();
  run_record record_;
  common::progress_bar* bar_ = nullptr;
  std::int64_t done_ = 0;
};

}  // namespace

run_record train(const troupe::node& node, const options& opts, common::status_line& line) {
  return run(node, opts, line).all();
}

}  // namespace weight_sync
