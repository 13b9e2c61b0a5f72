#include "troupe/apps/batch/run.hpp"

#include <fmt/format.h>

#include "troupe/apps/batch/observer.hpp"
#include "troupe/apps/batch/trainer.hpp"
#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/common/worker_group.hpp"

namespace batch {

namespace {

template <class Group>
void take(const Group& group, std::int64_t calls, way& how, common::progress_bar& bar) {
  how.seconds = group.seconds;
  how.calls = calls;
  how.failures = group.failures;
  bar.update(calls, group.seconds);
}

way serve_trainers(const troupe::node& node, const options& opts, const network_shape& shape,
                   bool together, common::status_line& line) {
  way how{.name = together ? "batched" : "one by one"};
  const auto ref =
      node.make_rref(std::in_place_type<parameter_server>, shape, opts.seed, opts.members);
  auto& server = ref.local_value();
  common::progress_bar bar(line, fmt::format("{:<10}", how.name), "gradients",
                           std::int64_t(opts.members) * opts.rounds);
  const auto group = common::run_group<&train>(
      node, opts.members,
      [&](std::uint32_t i) {
        return training{ref, i, shape, opts.seed, opts.rounds, opts.samples, together};
      },
      [ref](std::uint32_t i) { ref.local_value().leave(i); },
      [&](double seconds) { bar.update(server.gradients(), seconds); });
  take(group, server.gradients(), how, bar);
  double first = 0, last = 0;
  for (const auto& each : group.done) {
    first += each.first_loss / double(group.done.size());
    last += each.last_loss / double(group.done.size());
  }
  how.passes = server.steps();
  how.note = fmt::format("{} optimizer steps, loss {:.2f} to {:.2f}", how.passes, first, last);
  return how;
}

way serve_observers(const troupe::node& node, const options& opts, bool together,
                    common::status_line& line) {
  way how{.name = together ? "batched" : "one by one"};
  const auto ref = node.make_rref(std::in_place_type<agent>, opts.width, opts.seed, opts.members);
  auto& served = ref.local_value();
  common::progress_bar bar(line, fmt::format("{:<10}", how.name), "steps",
                           std::int64_t(opts.members) * opts.rounds);
  const auto group = common::run_group<&observe>(
      node, opts.members,
      [&](std::uint32_t i) {
        return observation_task{ref, i, opts.seed, opts.rounds, together};
      },
      [ref](std::uint32_t i) { ref.local_value().leave(i); },
      [&](double seconds) { bar.update(served.actions(), seconds); });
  take(group, served.actions(), how, bar);
  std::int64_t episodes = 0;
  for (const auto& each : group.done) episodes += each.episodes;
  how.passes = served.passes();
  how.note = fmt::format("{} forward passes, {} episodes", common::with_commas(double(how.passes)),
                         common::with_commas(double(episodes)));
  return how;
}

void say_job(const troupe::node& node, const comparison& result, const char* members,
             common::status_line& line) {
  const auto others = node.world_size() - 1;
  line.say(fmt::format("{}: {} {} on {} rank{}, a model of {} parameters", result.job,
                       result.members, members, others, others == 1 ? "" : "s",
                       common::with_commas(double(result.parameters))));
}

void say_end(const way& how, const char* member, common::status_line& line) {
  line.say(fmt::format("{}: {:.1f} s, {}", how.name, how.seconds, how.note));
  for (const auto& failure : how.failures) line.say(fmt::format("without {} {}", member, failure));
}

}  // namespace

comparison compare_servers(const troupe::node& node, const options& opts,
                           common::status_line& line) {
  const network_shape shape{64, opts.width, 10};
  comparison result{.job = "server", .seed = opts.seed, .members = opts.members};
  result.parameters = common::count_parameters(network(shape));
  common::homes(node);
  say_job(node, result, "trainers", line);
  result.batched = serve_trainers(node, opts, shape, true, line);
  say_end(result.batched, "trainer", line);
  result.one_by_one = serve_trainers(node, opts, shape, false, line);
  say_end(result.one_by_one, "trainer", line);
  line.say(verdict(result));
  return result;
}

comparison compare_agents(const troupe::node& node, const options& opts,
                          common::status_line& line) {
  comparison result{.job = "agent", .seed = opts.seed, .members = opts.members};
  result.parameters = common::count_parameters(network({4, opts.width, 2}));
  common::homes(node);
  say_job(node, result, "observers", line);
  result.batched = serve_observers(node, opts, true, line);
  say_end(result.batched, "observer", line);
  result.one_by_one = serve_observers(node, opts, false, line);
  say_end(result.one_by_one, "observer", line);
  line.say(verdict(result));
  return result;
}

}  // namespace batch
