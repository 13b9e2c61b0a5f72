#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <troupe/troupe.hpp>
#include <vector>

namespace common {

/// The other nodes, to which the members of a group are assigned in turn. Throws
/// troupe::invalid_argument, which says what to do, if there are none.
std::vector<troupe::worker_info> homes(const troupe::node& node);

/// Runs a job in which rank 0 calls `serve`, and the other ranks execute its calls until it returns
/// or throws. A rank that is silent for `limit_seconds` is removed from the job, and calls to it
/// fail before they time out. Returns what `serve` returns; true on the other ranks.
///
/// Throws what `serve` throws, troupe::invalid_argument if this rank is the only one, and what
/// init_rpc and the node's shutdown throw. `options` are for init_rpc, but for the limits.
bool run_job(double limit_seconds, const std::function<bool(const troupe::node&)>& serve,
             troupe::rpc_options options = {});

/// The outcome of one member's work.
template <class Result>
struct member_end {
  std::optional<Result> result;
  std::string failure;  ///< why there is no result
};

/// Calls F with `task` on `where`, without a timeout, and then `leave`: whether the call has
/// returned, has failed or is lost with its node, nobody needs to wait for that member any longer.
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

/// The outcome of the work of all members.
template <class Result>
struct group_result {
  std::vector<Result> done;
  std::vector<std::string> failures;  ///< the members without a result, and why
  double seconds = 0;
};

/// Adds a failed member: to the line of those that failed for the same reason, or as a new one.
void add_failure(std::vector<std::string>& failures, std::uint32_t member, const std::string& why);

/// Throws troupe::peer_lost, with the first failure.
[[noreturn]] void throw_nobody_left(const std::vector<std::string>& failures);

/// Calls F with `make_task(i)` for each of `members` members, all at once, on the other nodes in
/// turn. Calls `leave(i)` when member i has ended in whatever way, and `watch(seconds)` twenty
/// times a second meanwhile. Throws troupe::invalid_argument if there is no other node, and
/// troupe::peer_lost if no member has finished.
template <auto F, class MakeTask, class Leave, class Watch>
auto run_group(const troupe::node& node, std::size_t members, MakeTask make_task, Leave leave,
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

  group_result<result> group;
  group.seconds = seconds();
  for (std::uint32_t i = 0; i < members; ++i) {
    const auto& end = all.get()[i];
    if (end.result)
      group.done.push_back(*end.result);
    else
      add_failure(group.failures, i, end.failure);
  }
  if (group.done.empty()) throw_nobody_left(group.failures);
  return group;
}

}  // namespace common
