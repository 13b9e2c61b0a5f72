#include "apps/batch/run.hpp"

#include <fmt/format.h>

#include <map>

#include "apps/batch/agent.hpp"
#include "apps/batch/observer.hpp"
#include "apps/batch/parameter_server.hpp"
#include "apps/batch/team.hpp"
#include "apps/batch/trainer.hpp"
#include "apps/common/progress_bar.hpp"

namespace batch {

namespace {

using clock = std::chrono::steady_clock;

template <class Result>
using ends = std::vector<member_end<Result>>;

/// Has `members` tasks done by F, all at once, and shows how many calls `calls` counts meanwhile.
template <auto F, class MakeTask, class Leave, class Count>
auto run_team(const troupe::node& node, std::size_t members, common::progress_bar& bar, way& how,
              MakeTask make_task, Leave leave, Count count) {
  using result = typename troupe::callable<F>::answer;
  const auto places = homes(node);
  const auto start = clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
  std::vector<troupe::future<member_end<result>>> running;
  for (std::uint32_t i = 0; i < members; ++i)
    running.push_back(
        accompany<F>(node, places[i % places.size()], make_task(i), [leave, i] { leave(i); }));
  const auto all = troupe::when_all(running);
  while (!all.wait_for(std::chrono::milliseconds(50))) bar.update(count(), seconds());
  how.seconds = seconds();
  how.calls = count();
  bar.update(how.calls, how.seconds);

  std::vector<result> done;
  std::map<std::string, std::string> lost;  // who, by why
  for (std::uint32_t i = 0; i < members; ++i) {
    const auto& end = all.get()[i];
    if (end.result) {
      done.push_back(*end.result);
    } else {
      auto& who = lost[end.failure];
      who += (who.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  for (const auto& [why, who] : lost) how.failures.push_back(who + ": " + why);
  if (done.empty()) throw troupe::peer_lost("nobody is left; " + how.failures.front());
  return done;
}

way serve_trainers(const troupe::node& node, const options& opts, const network_shape& shape,
                   bool together, common::status_line& line) {
  way how{.name = together ? "batched" : "one by one"};
  const auto server = std::make_shared<parameter_server>(shape, opts.seed, opts.members);
  const auto kept = node.spawn<keeper_of<parameter_server>>(server);
  common::progress_bar bar(line, fmt::format("{:<10}", how.name), "gradients",
                           std::int64_t(opts.members) * opts.rounds);
  const auto results = run_team<&train>(
      node, opts.members, bar, how,
      [&](std::uint32_t i) {
        return training{kept,        node.rank(),  i,       shape, opts.seed,
                        opts.rounds, opts.samples, together};
      },
      [server](std::uint32_t i) { server->leave(i); }, [&] { return server->gradients(); });
  double first = 0, last = 0;
  for (const auto& each : results) {
    first += each.first_loss / double(results.size());
    last += each.last_loss / double(results.size());
  }
  how.passes = server->steps();
  how.note = fmt::format("{} optimiser steps, loss {:.2f} to {:.2f}", how.passes, first, last);
  return how;
}

way serve_observers(const troupe::node& node, const options& opts, bool together,
                    common::status_line& line) {
  way how{.name = together ? "batched" : "one by one"};
  const auto served = std::make_shared<agent>(opts.width, opts.seed, opts.members);
  const auto kept = node.spawn<keeper_of<agent>>(served);
  common::progress_bar bar(line, fmt::format("{:<10}", how.name), "steps",
                           std::int64_t(opts.members) * opts.rounds);
  const auto results = run_team<&observe>(
      node, opts.members, bar, how,
      [&](std::uint32_t i) {
        return observation_task{kept, node.rank(), i, opts.seed, opts.rounds, together};
      },
      [served](std::uint32_t i) { served->leave(i); }, [&] { return served->actions(); });
  std::int64_t episodes = 0;
  for (const auto& each : results) episodes += each.episodes;
  how.passes = served->passes();
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
  result.parameters = count_parameters(network(shape));
  homes(node);
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
  result.parameters = count_parameters(network({4, opts.width, 2}));
  homes(node);
  say_job(node, result, "observers", line);
  result.batched = serve_observers(node, opts, true, line);
  say_end(result.batched, "observer", line);
  result.one_by_one = serve_observers(node, opts, false, line);
  say_end(result.one_by_one, "observer", line);
  line.say(verdict(result));
  return result;
}

}  // namespace batch
