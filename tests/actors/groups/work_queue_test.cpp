// The order of a group's collectives, and the threads that they run on.

#include "troupe/actors/groups/work/work_queue.hpp"

#include <future>
#include <thread>
#include <troupe/troupe.hpp>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::test {
namespace {

using groups::work_queue;

class work_queues : public testing::Test {
protected:
  ~work_queues() override { queue->close(); }

  std::uint64_t push(std::function<void()> body) {
    return queue->push([&](std::uint64_t) -> work_queue::item {
      return [body = std::move(body)](std::uint64_t) { body(); };
    });
  }

  local_group all{1};
  const std::shared_ptr<work_queue> queue =
      std::make_shared<work_queue>(all.groups[0].member("a test")->channel().driver());
};

TEST_F(work_queues, let_turns_be_taken_in_order) {
  std::vector<int> order;
  std::promise<void> go;
  const auto item = [&](int number) {
    push([&, number] {
      if (number == 1) go.get_future().wait();
      order.push_back(number);
    });
  };
  for (int i = 1; i <= 3; ++i) item(i);
  // What cannot be made takes no number, and is in nobody's way.
  EXPECT_THROW(
      queue->push([](std::uint64_t) -> work_queue::item { throw std::length_error("too long"); }),
      std::length_error);
  EXPECT_EQ(queue->last(), 3u);
  auto later = std::async(std::launch::async, [&] { go.set_value(); });
  queue->enter_in_order();
  order.push_back(0);
  queue->leave();
  EXPECT_EQ(order, (std::vector{1, 2, 3, 0}));
  // The queue's thread may still be about to find that there is nothing left.
  std::uint64_t next = 0;
  EXPECT_TRUE(eventually([&] { return (next = queue->try_enter()) != 0; }));
  EXPECT_EQ(next, 4u);
  queue->leave();
}

TEST_F(work_queues, run_what_is_waited_for_on_the_thread_that_waits) {
  int here = 0;
  for (int i = 0; i < 400; ++i) {
    std::atomic<std::thread::id> by;
    queue->run_up_to(push([&] { by = std::this_thread::get_id(); }));
    // Or else the queue's thread was faster, and has it.
    ASSERT_TRUE(eventually([&] { return by.load() != std::thread::id(); }));
    here += by.load() == std::this_thread::get_id();
  }
  EXPECT_GT(here, 10);
}

TEST_F(work_queues, run_what_nobody_waits_for) {
  for (int i = 0; i < 20; ++i) {
    queue->run_up_to(push([] {}));
    std::atomic<int> ran{0};
    for (int j = 0; j < 3; ++j) push([&] { ++ran; });
    EXPECT_TRUE(eventually([&] { return ran == 3; }));
    // Long enough for its thread to go to sleep.
    if (i % 5 == 0) std::this_thread::sleep_for(10ms);
  }
}

TEST_F(work_queues, keep_the_order_whoever_runs_it) {
  constexpr int threads = 4, each = 2000;
  std::atomic<int> inside{0}, ran{0};
  std::atomic<std::uint64_t> last{0};
  std::vector<int> workers(threads);
  on_each(workers, [&](int, int thread) {
    for (int i = 0; i < each; ++i) {
      const auto number = queue->push([&](std::uint64_t) -> work_queue::item {
        return [&](std::uint64_t sequence) {
          EXPECT_EQ(inside++, 0);
          EXPECT_EQ(last.exchange(sequence) + 1, sequence);
          ++ran;
          --inside;
        };
      });
      if (i % 4 == thread) queue->run_up_to(number);
      if (i % 100 == 0) queue->enter_in_order(), queue->leave();
    }
  });
  queue->enter_in_order();
  EXPECT_EQ(ran, threads * each);
  queue->leave();
}

}  // namespace
}  // namespace troupe::test
