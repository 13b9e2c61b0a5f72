// Nodes that share one processor: they poll it in turns, and a wake-up of a thread in between takes
// the turn of one that has something to do.
#include <dirent.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <fstream>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

class crowded_nodes : public on_networks {
protected:
  // The threads of nodes begin where the one that starts them may run.
  crowded_nodes() {
    EXPECT_EQ(sched_getaffinity(0, sizeof mine_, &mine_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~crowded_nodes() override { sched_setaffinity(0, sizeof mine_, &mine_); }

private:
  cpu_set_t mine_;
};
TROUPE_ON_NETWORKS(crowded_nodes);

int twice(int x) { return 2 * x; }

std::atomic<bool> may_end{false};

int sleep_long(int x) {
  while (!may_end) std::this_thread::sleep_for(1ms);
  return x;
}

// How often threads of nodes have gone to sleep, which each has ended with a wake-up.
long sleeps_of_node_threads() {
  long all = 0;
  auto* tasks = opendir("/proc/self/task");
  while (const auto* entry = readdir(tasks)) {
    const auto folder = std::string("/proc/self/task/") + entry->d_name;
    std::string name, word;
    std::ifstream(folder + "/comm") >> name;
    if (name != "troupe") continue;
    for (std::ifstream status(folder + "/status"); status >> word;)
      if (long count = 0; word == "voluntary_ctxt_switches:" && status >> count) all += count;
  }
  closedir(tasks);
  return all;
}

// Short calls over and over, each at a callee that has polled for a moment.
void call_for(const node& caller, std::chrono::milliseconds span) {
  for (const auto end = clock::now() + span; clock::now() < end;)
    ASSERT_EQ(caller.rpc_sync<&twice>("b", 21), 42);
}

// Of all threads of this process.
std::chrono::nanoseconds computed() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST_P(crowded_nodes, are_not_woken_to_see_that_handlers_are_short) {
  auto nodes = start({"a", "b"});
  call_for(nodes[0], 100ms);
  long fewest = -1;
  for (int window = 0; window < 20; ++window) {
    const auto begun = clock::now();
    const auto time = computed();
    const auto before = sleeps_of_node_threads();
    call_for(nodes[0], 100ms);
    const auto sleeps = sleeps_of_node_threads() - before;
    // Where others compute on the processor nodes have to sleep.
    if (computed() - time < 0.95 * (clock::now() - begun)) continue;
    fewest = fewest < 0 ? sleeps : std::min(fewest, sleeps);
  }
  if (fewest < 0) GTEST_SKIP() << "others compute on this processor";
  EXPECT_LT(fewest, 20);
}

TEST_P(crowded_nodes, answer_while_a_handler_sleeps) {
  auto nodes = start({"a", "b"});
  for (int round = 0; round < 3; ++round) {
    call_for(nodes[0], 100ms);
    may_end = false;
    auto asleep = nodes[0].rpc_async<&sleep_long>("b", round);
    const struct waker {
      ~waker() { may_end = true; }
    } in_any_case;
    for (int i = 0; i < 20; ++i) {
      const auto begun = clock::now();
      EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", i), 2 * i);
      EXPECT_LT(clock::now() - begun, time_limit / 4);
    }
    EXPECT_FALSE(asleep.ready());
    may_end = true;
    EXPECT_EQ(asleep.get_for(time_limit), round);
  }
}

}  // namespace
}  // namespace troupe::test
