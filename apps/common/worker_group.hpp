#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <troupe/troupe.hpp>
#include <vector>

namespace common {

/// The nodes but this one, on which the members of a team take turns. Throws
/// troupe::invalid_argument, which says what to do, when there are none.
std::vector<troupe::worker_info> homes(const troupe::node& node);

/// A job in which rank 0 has `serve` do all there is to do, and the other ranks do what it asks for
/// until it has ended, well or not. A rank that is silent for `limit_seconds` is shut out, and who
/// waits for it hears of that in time. What `serve` returns; true on the other ranks.
///
/// Throws what `serve` throws, troupe::invalid_argument when this rank is the only one, and what
/// init_rpc and the node's shutdown throw.
bool run_job(double limit_seconds, const std::function<bool(const troupe::node&)>& serve);

/// How the work of one member ended.
template <class Result>
struct member_end {
  std::optional<Result> result;
  std::string failure;  ///< why there is none
};

/// Has `task` done by F on `where`, however long it takes, and calls `leave` when it has ended:
/// done, failed, or lost with its node. Then nobody needs to wait for it any more.
template <auto F, class Task>
auto accompany(troupe::node node, troupe::worker_info where, Task task, std::function<void()> leave)
    -> troupe::task<member_end<typename troupe::callable<F>::answer>> {
  member_end<typename troupe::callable<F>::answer> end;
  try {
    end.result = co_await node.rpc_async<F>(where, task, troupe::timeout(std::chrono::seconds(0)));
  } catch (const troupe::error& why) {
    end.failure = why.what();
  }
  leave();
  co_return end;
}

/// How the work of all ended.
template <class Result>
struct team_result {
  std::vector<Result> done;
  std::vector<std::string> failures;  ///< which members have none, and why
  double seconds = 0;
};

/// Adds a member to those who failed for the same reason.
void add_failure(std::vector<std::string>& failures, std::uint32_t member, const std::string& why);

/// Throws troupe::peer_lost, with the first failure.
[[noreturn]] void throw_nobody_left(const std::vector<std::string>& failures);

/// Has `make_task(i)` done by F for each of `members` members, all at once, on the other nodes in
/// turn. `leave(i)` is called when member i has ended in whatever way, `watch(seconds)` twenty
/// times a second meanwhile. Throws troupe::invalid_argument when there is no other node, and
/// troupe::peer_lost when nobody has come to an end.
template <auto F, class MakeTask, class Leave, class Watch>
auto run_team(const troupe::node& node, std::size_t members, MakeTask make_task, Leave leave,
              Watch watch) {
  using clock = std::chrono::steady_clock;
  using result = typename troupe::callable<F>::answer;
  const auto places = homes(node);
  const auto start = clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
  std::vector<troupe::future<member_end<result>>> running;
  for (std::uint32_t i = 0; i < members; ++i)
    running.push_back(
        accompany<F>(node, places[i % places.size()], make_task(i), [leave, i] { leave(i); }));
  const auto all = troupe::when_all(running);
  while (!all.wait_for(std::chrono::milliseconds(50))) watch(seconds());

  team_result<result> team;
  team.seconds = seconds();
  for (std::uint32_t i = 0; i < members; ++i) {
    const auto& end = all.get()[i];
    if (end.result)
      team.done.push_back(*end.result);
    else
      add_failure(team.failures, i, end.failure);
  }
  if (team.done.empty()) throw_nobody_left(team.failures);
  return team;
}

}  // namespace common
