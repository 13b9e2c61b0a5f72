// How long until all ranks of a group know that one of them has died in a collective.

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <troupe/collectives.hpp>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"

namespace troupe::bench {

namespace {

std::atomic<std::int64_t> failed_at_ns{0};  // of the host's steady clock

std::int64_t ns_now() { return std::chrono::nanoseconds(clock::now().time_since_epoch()).count(); }

}  // namespace

void reduce_until_error(const process_group& group) {
  const auto x = at::zeros({1 << 20});
  try {
    for (;;) all_reduce(group, x);
  } catch (const std::exception&) {
    failed_at_ns = ns_now();
  }
}

std::int64_t collective_failed_at() {
  const auto start = clock::now();
  while (failed_at_ns == 0) {
    if (seconds_since(start) > 60) throw internal_error("a survivor has no error for 60 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return failed_at_ns;
}

namespace {

// A job of its own, whose rank 0 is this process. In seconds.
double until_last_error(std::chrono::milliseconds after) {
  constexpr std::uint32_t world = 4;
  const meeting_folder meeting;
  std::vector<std::unique_ptr<test::rank_process>> others;
  for (std::uint32_t rank = 1; rank < world; ++rank)
    others.push_back(
        start_rank({std::to_string(rank), std::to_string(world), meeting.file(), "--collectives"}));
  const auto here = init_rpc(own_rank_options(0, world, meeting.file()));
  failed_at_ns = 0;
  std::thread mine([&] { reduce_until_error(here.world()); });
  std::this_thread::sleep_for(after);
  const auto killed = ns_now();
  others.back()->kill();
  mine.join();
  auto last = failed_at_ns.load();
  for (std::uint32_t rank = 1; rank + 1 < world; ++rank)
    last = std::max(last, here.rpc_sync<&collective_failed_at>(rank));
  if (last < killed) throw internal_error("a rank has failed before the kill");
  here.shutdown();
  return static_cast<double>(last - killed) * 1e-9;
}

std::vector<measurement> dead_rank(const node&) {
  std::vector<double> taken;
  for (const int after : {301, 317, 331, 343, 359})  // ms: somewhere in an operation
    taken.push_back(until_last_error(std::chrono::milliseconds(after)));
  return {times_of(taken)};
}

}  // namespace

const std::map<std::string, row>& dead_rank_rows() {
  static const std::map<std::string, row> all = {{"dead_rank", dead_rank}};
  return all;
}

}  // namespace troupe::bench
