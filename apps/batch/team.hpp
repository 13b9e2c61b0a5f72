#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <troupe/troupe.hpp>
#include <vector>

namespace batch {

/// How the work of one member ended.
template <class Result>
struct member_end {
  std::optional<Result> result;
  std::string failure;  ///< why there is none
};

/// Has `task` done by F on `where`, however long it takes, and calls `leave` when it has ended:
/// done, failed, or lost with its node. Then nobody needs to wait for it any more.
template <auto F, class Task>
troupe::task<member_end<typename troupe::callable<F>::answer>> accompany(
    troupe::node node, troupe::worker_info where, Task task, std::function<void()> leave) {
  member_end<typename troupe::callable<F>::answer> end;
  try {
    end.result = co_await node.rpc_async<F>(where, task, troupe::timeout(std::chrono::seconds(0)));
  } catch (const troupe::error& why) {
    end.failure = why.what();
  }
  leave();
  co_return end;
}

/// The other nodes of the job, on which the members of a team take turns. Throws
/// troupe::invalid_argument, which says what to do, when there are none.
std::vector<troupe::worker_info> homes(const troupe::node& node);

}  // namespace batch
