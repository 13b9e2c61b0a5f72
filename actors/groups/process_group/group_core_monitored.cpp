// The monitored barrier: rank 0 hears of each rank by itself, and can say which one is missing.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::groups {

namespace {

// Of the numbers of their messages, which are beyond those of collectives.
constexpr std::uint64_t first_monitored = std::uint64_t{1} << 63;
constexpr std::uint32_t reached = 0;   // to rank 0
constexpr std::uint32_t answered = 1;  // from rank 0: empty, or what is wrong

[[noreturn]] void throw_timeout(std::string text, std::chrono::milliseconds limit) {
  fault f;
  f.code = errc::rpc_timeout;
  f.text = std::move(text);
  f.limit = limit;
  throw collective_timeout(std::move(f));
}

network::packet packet_of(const std::string& text) {
  return network::packet({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::string text_of(const network::packet& content) {
  const auto bytes = content.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void group_core::monitored_barrier(std::chrono::milliseconds limit, bool wait_all_ranks) {
  check_usable();
  // The channel is enough. Members that have not agreed on the group yet may be those missing.
  queue_->enter_in_order();
  const work_queue::turn turn(*queue_);
  check_usable();
  // They count by themselves: ranks that have missed one are in step with the others' collectives.
  operation what;
  what.kind = operation_kind::monitored_barrier;
  what.sequence = ++monitored_;
  const auto record = schedule(what, operation_state::started);
  const auto number = first_monitored + what.sequence;
  std::exception_ptr why;
  try {
    if (rank() == 0)
      monitor_ranks(number, limit, wait_all_ranks);
    else
      pass_monitor(number, limit);
  } catch (...) {
    why = in_detail(what, record, error_at(place_of(what), std::current_exception()));
  }
  operation_ended(record, place_of(what), why);
  if (why) std::rethrow_exception(why);
}

void group_core::monitor_ranks(std::uint64_t sequence, std::chrono::milliseconds limit,
                               bool wait_all_ranks) {
  const auto deadline = deadline_after(limit);
  const auto answer_all = [&](const std::string& text) {
    const auto answer = packet_of(text);
    for (int to = 1; to < size(); ++to) {
      try {
        channel_->send(to, network::part{sequence, answered, answer});
      } catch (const error&) {
        // It is lost.
        if (text.empty()) throw;
      }
    }
  };
  std::vector<int> processed, missing;
  std::string problem;
  const auto take = [&](int from) {
    try {
      return channel_->parts().take({sequence, reached, from}, deadline).has_value();
    } catch (const error& e) {
      answer_all(
          fmt::format("[Rank 0]: Rank {} failed to pass monitoredBarrier: {}", from, e.what()));
      throw;
    }
  };
  for (int from = 1; from < size() && problem.empty(); ++from) {
    if (!wait_all_ranks && !processed.empty() && clock::now() > deadline) {
      problem = fmt::format(
          "Rank 0 timed out in monitoredBarrier after {} ms.\n Successfully "
          "processed ranks: {}",
          limit.count(), fmt::join(processed, ", "));
    } else if (take(from)) {
      processed.push_back(from);
    } else if (wait_all_ranks) {
      missing.push_back(from);
    } else {
      problem = fmt::format("[Rank 0]: Rank {} failed to pass monitoredBarrier in {} ms", from,
                            limit.count());
    }
  }
  if (!missing.empty())
    problem = fmt::format("[Rank 0]: {} {} failed to pass monitoredBarrier in {} ms",
                          missing.size() == 1 ? "Rank" : "Ranks", fmt::join(missing, ", "),
                          limit.count());
  answer_all(problem);
  if (!problem.empty()) throw_timeout(std::move(problem), limit);
}

void group_core::pass_monitor(std::uint64_t sequence, std::chrono::milliseconds limit) {
  channel_->send(0, network::part{sequence, reached, {}});
  const auto answer = channel_->parts().take({sequence, answered, 0}, deadline_after(limit));
  if (answer && answer->size() == 0) return;
  throw_timeout(fmt::format("Rank {} successfully reached monitoredBarrier, but received errors "
                            "while waiting for send/recv from rank 0. Please check rank 0 logs for "
                            "faulty rank.\n Original exception: \n{}",
                            rank(),
                            answer ? text_of(*answer)
                                   : fmt::format("nothing came of rank 0 in {} ms", limit.count())),
                limit);
}

}  // namespace troupe::groups
