// The end of other processes, noticed.

#include "troupe/transport/system/process_end.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>

#include "tests/forking.hpp"
#include "tests/rank_process.hpp"
#include "tests/transport/regions/memory_fixture.hpp"
#include "tests/transport/regions/memory_process.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
using troupe::test::in_child;
using troupe::test::rank_process;

// `pid`, as it would describe itself.
process_identity process_end_identity(int pid) {
  auto out = this_process();
  out.pid = static_cast<std::uint32_t>(pid);
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int field = 0; field < 22; ++field) in >> word;
  out.start_time = std::stoull(word);
  return out;
}

// The first watch of a process opens what all share, so it is no test's.
class process_end : public testing::Test {
protected:
  static void SetUpTestSuite() {
    (void)on_process_end(this_process(), [] {});
  }
};

TEST_F(process_end, of_a_killed_process_is_reported) {
  const same_descriptors descriptors;
  rank_process child({"sleep", "100"});
  std::atomic<int> calls = 0;
  const auto watch = on_process_end(process_end_identity(child.pid()), [&] { ++calls; });
  EXPECT_EQ(watch.why(), "");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(calls, 0);
  child.kill();
  EXPECT_TRUE(comes_true([&] { return calls == 1; }, 1s));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(calls, 1);
}

TEST_F(process_end, is_not_a_standstill) {
  rank_process child({"sleep", "100"});
  std::atomic<int> calls = 0;
  const auto watch = on_process_end(process_end_identity(child.pid()), [&] { ++calls; });
  child.stop();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(calls, 0);
  child.go_on();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(calls, 0);
}

TEST_F(process_end, is_not_reported_after_cancel) {
  std::atomic<int> calls = 0;
  rank_process child({"sleep", "100"});
  const auto who = process_end_identity(child.pid());
  const same_descriptors descriptors;
  {
    const auto watch = on_process_end(who, [&] { calls += 1; });
  }
  auto second = on_process_end(who, [&] { calls += 10; });
  second.cancel();
  auto third = on_process_end(who, [&] { calls += 100; });
  third = on_process_end(who, [&] { calls += 1000; });
  const auto moved = std::move(third);
  child.kill();
  EXPECT_TRUE(comes_true([&] { return calls == 1000; }, 1s));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(calls, 1000);
  EXPECT_TRUE(descriptors.now());
}

TEST_F(process_end, before_the_call_is_reported_soon) {
  std::atomic<int> calls = 0;
  process_identity who;
  {
    rank_process child({"sleep", "100"});
    who = process_end_identity(child.pid());
    child.kill();
    ASSERT_TRUE(comes_true([&] { return process_end_identity(child.pid()).pid != 0; }));
    // Not waited for: a zombie.
    const auto watch = on_process_end(who, [&] { ++calls; });
    EXPECT_TRUE(comes_true([&] { return calls == 1; }, 1s));
  }
  const auto watch = on_process_end(who, [&] { ++calls; });
  EXPECT_EQ(watch.why(), "");
  EXPECT_TRUE(comes_true([&] { return calls == 2; }, 1s));
}

TEST_F(process_end, is_that_of_the_process_and_not_of_its_number) {
  rank_process child({"sleep", "100"});
  auto before = process_end_identity(child.pid());
  before.start_time -= 1;  // the number had another owner then
  std::atomic<int> calls = 0;
  const auto watch = on_process_end(before, [&] { ++calls; });
  EXPECT_TRUE(comes_true([&] { return calls == 1; }, 1s));
}

TEST_F(process_end, that_cannot_be_noticed_is_never_reported) {
  auto elsewhere = this_process();
  elsewhere.host[0] ^= std::byte{1};
  std::atomic<int> calls = 0;
  const auto on_host = on_process_end(elsewhere, [&] { ++calls; });
  EXPECT_NE(on_host.why().find("another host"), std::string::npos);
  auto contained = this_process();
  contained.pid_namespace += 1;
  const auto in_namespace = on_process_end(contained, [&] { ++calls; });
  EXPECT_NE(in_namespace.why().find("namespace"), std::string::npos);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 0);
}

TEST_F(process_end, cannot_be_watched_without_a_descriptor) {
  rank_process child({"sleep", "100"});
  const auto who = process_end_identity(child.pid());
  {
    const auto first = on_process_end(who, [] {});
  }
  const same_descriptors descriptors;
  {
    const few_descriptors none(0);
    const auto why = error_of_call([&] { (void)on_process_end(who, [] {}); });
    EXPECT_NE(why.find("(ulimit -n)"), why.npos) << why;
  }
  EXPECT_TRUE(descriptors.now());
}

TEST_F(process_end, cancel_waits_for_a_call) {
  process_identity who;
  {
    rank_process child({"sleep", "100"});
    who = process_end_identity(child.pid());
  }
  std::promise<void> begun;
  std::atomic<bool> finished = false;
  const auto owned = std::make_shared<int>(1);
  auto watch = on_process_end(who, [&, owned] {
    begun.set_value();
    std::this_thread::sleep_for(100ms);
    finished = true;
  });
  begun.get_future().wait();
  watch.cancel();
  EXPECT_TRUE(finished);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(process_end, can_be_cancelled_and_watched_within_a_call) {
  process_identity who;
  {
    rank_process child({"sleep", "100"});
    who = process_end_identity(child.pid());
  }
  std::promise<void> over;
  std::promise<void> ready;
  auto first = std::make_unique<process_end_watch>();
  process_end_watch second;
  const auto go = ready.get_future().share();
  *first = on_process_end(who, [&, go] {
    go.wait();
    second = on_process_end(who, [&] { over.set_value(); });
    first.reset();
    throw std::runtime_error("logged");
  });
  ready.set_value();
  EXPECT_EQ(over.get_future().wait_for(5s), std::future_status::ready);
  second.cancel();  // `over` may still be in use
}

TEST_F(process_end, is_watched_until_the_program_ends_and_no_longer) {
  for (int round = 0; round < 5; ++round) {
    memory_process program({"watch"});
    EXPECT_EQ(program.line_of(), "watching");
    EXPECT_EQ(program.exit_code(), 0);
  }
}

TEST_F(process_end, of_many_is_reported_once_each) {
  const same_descriptors descriptors;
  constexpr int processes = 8;
  constexpr int watches_of_each = 20;
  std::atomic<int> calls = 0;
  std::vector<std::unique_ptr<rank_process>> children;
  std::vector<process_end_watch> watches;
  for (int i = 0; i < processes; ++i) {
    children.push_back(std::make_unique<rank_process>(std::vector<std::string>{"sleep", "100"}));
    const auto who = process_end_identity(children.back()->pid());
    for (int j = 0; j < watches_of_each; ++j)
      watches.push_back(on_process_end(who, [&] { ++calls; }));
  }
  std::thread canceller([&] {
    for (std::size_t i = 0; i < watches.size(); i += 2) watches[i].cancel();
  });
  for (const auto& child : children) child->kill();
  canceller.join();
  EXPECT_TRUE(comes_true([&] { return calls >= processes * watches_of_each / 2; }, 2s));
  watches.clear();
  EXPECT_LE(calls, processes * watches_of_each);
  EXPECT_TRUE(descriptors.now());
}

TEST_F(process_end, is_not_watched_by_forked_processes) {
  rank_process child({"sleep", "100"});
  std::atomic<int> calls = 0;
  auto watch = on_process_end(process_end_identity(child.pid()), [&] { ++calls; });
  EXPECT_EQ(in_child([&] {
              child.kill();
              std::this_thread::sleep_for(50ms);
              watch.cancel();
              return calls == 0 ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(comes_true([&] { return calls == 1; }, 1s));
}

}  // namespace
}  // namespace troupe::transport::test
