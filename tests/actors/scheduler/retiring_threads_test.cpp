// Threads that a node has made for many blocked handlers, and which end when they have been spare
// for long.

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

namespace {

void pass_door() { shared_door::current()->pass(); }

TEST(retiring_threads, leave_the_actors_that_have_work_to_others) {
  constexpr int many = 100;
  rpc_options options;
  options.thread_idle_limit = 300ms;
  auto nodes = local_nodes({"a"}, options);
  const auto& here = nodes[0];
  unsigned threads = 0;
  {
    const shared_door door;
    std::vector<future<void>> calls;
    for (int i = 0; i < many; ++i) calls.push_back(here.rpc_async<&pass_door>("a", timeout(0ms)));
    ASSERT_TRUE(door->wait_for(many));
    threads = here.debug_info().threads;
    door->open();
    for (const auto& one : calls) one.get();
  }
  const auto free_since = clock::now();
  ASSERT_GE(threads, static_cast<unsigned>(many));
  const auto many_have_ended = [&] { return here.debug_info().threads < threads * 3 / 4; };
  std::vector<int> askers{0, 1, 2, 3};
  all_at_once(askers, [&](int&) {
    const auto counter = here.spawn(&count_from, 0);
    for (int i = 1; !many_have_ended() && clock::now() < free_since + time_limit; ++i) {
      const auto answer = request(counter, add{1});
      ASSERT_TRUE(answer.wait_for(time_limit)) << "an actor has work, and no thread comes";
      ASSERT_EQ(answer.get(), i);
    }
  });
  EXPECT_TRUE(eventually(many_have_ended));
  shut_down(nodes);
}

}  // namespace

}  // namespace troupe::test
