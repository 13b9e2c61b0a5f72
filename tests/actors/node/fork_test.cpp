// Processes that are forked from one with nodes: they get errors, at once, and nobody else notices.

#include <spawn.h>
#include <stdio.h>
#include <unistd.h>

#include <caf/scoped_actor.hpp>
#include <cstdlib>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "tests/forking.hpp"
#include "troupe/messages/codec/message_codec.hpp"

extern char** environ;

namespace troupe::test {

struct fork_now {};
TROUPE_MESSAGE(fork_now)

namespace {

constexpr int ended_by_troupe = 70;
constexpr int last_word = 5;

// Counts the entries of a node that do not report at once that this process was forked.
class entries {
public:
  template <class F>
  void expect_refusal(F&& f) {
    ++tried_;
    if (!refused_as_forked<not_initialized>(f) && first_ == 0) first_ = tried_;
  }

  /// 0: all have; otherwise the number of the first that has not.
  int first_open() const noexcept { return first_; }

private:
  int tried_ = 0;
  int first_ = 0;
};

int twice(int x) { return 2 * x; }

int wait_at_door(int x) {
  shared_door::current()->pass();
  return x;
}

task<int> later(int x) {
  co_await sleep_for(1ms);
  co_return x;
}

class forks : public on_networks {};
TROUPE_ON_NETWORKS(forks);

// A node's caller, who never notices anything.
class caller {
public:
  caller(const node& from, const counter& whom)
      : thread_([this, from, whom] {
          try {
            for (int i = 1; !over_; ++i) {
              if (from.rpc_sync<&twice>("b", i) != 2 * i) ++wrong_;
              if (request(whom, add{1}).get() != i) ++wrong_;
              ++calls_;
            }
          } catch (const std::exception& e) {
            failure_ = e.what();
          }
        }) {}
  ~caller() { end(); }

  int calls() const { return calls_; }
  int wrong() const { return wrong_; }
  const std::string& end() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

private:
  std::atomic<bool> over_{false};
  std::atomic<int> calls_{0}, wrong_{0};
  std::string failure_;
  std::thread thread_;
};

TEST_P(forks, get_an_error_from_every_entry_while_the_parent_goes_on) {
  auto nodes = start({"a", "b"});
  auto& a = nodes[0];
  const shared_door door;
  auto far = a.spawn_on<count_from>("b", 0);
  auto near = a.spawn(count_from, 0);
  auto called = a.spawn_on<count_from>("b", 0);
  auto there = a.remote<&twice>("b", 21);
  auto here = a.make_rref(7);
  auto pending = a.rpc_async<&wait_at_door>("b", 1);
  ASSERT_TRUE(door->wait_for(1));
  EXPECT_EQ(there.to_here(), 42);
  {
    caller parent(a, called);
    for (int i = 0; i < 12; ++i) {
      const auto before = parent.calls();
      const int refused = in_child([&] {
        entries all;
        all.expect_refusal([&] { a.rpc_sync<&twice>("b", 1); });                 // 1
        all.expect_refusal([&] { a.rpc_sync<&twice>("a", 1); });                 // 2
        all.expect_refusal([&] { a.rpc_async<&twice>(1, 1, timeout(1ms)); });    // 3
        all.expect_refusal([&] { a.rpc_sync("b", "aten::add", 1, 2); });         // 4
        all.expect_refusal([&] { a.remote<&twice>("b", 1); });                   // 5
        all.expect_refusal([&] { request(far, add{1}).get(); });                 // 6
        all.expect_refusal([&] { request(near, add{1}).get(); });                // 7
        all.expect_refusal([&] { request(near, add{1}, timeout(1ms)).get(); });  // 8
        all.expect_refusal([&] { send(near, add{1}); });                         // 9
        all.expect_refusal([&] { send(far, add{1}, no_wait); });                 // 10
        all.expect_refusal([&] { a.spawn(count_from, 1); });                     // 11
        all.expect_refusal([&] { a.spawn_on<count_from>("b", 1); });             // 12
        all.expect_refusal([&] { pending.get(); });                              // 13
        all.expect_refusal([&] { pending.get_for(1s); });                        // 14
        all.expect_refusal([&] { there.to_here(); });                            // 15
        all.expect_refusal([&] { here.to_here(); });                             // 16
        all.expect_refusal([&] { here.local_value(); });                         // 17
        all.expect_refusal([&] { a.make_rref(1); });                             // 18
        all.expect_refusal([&] { there.owner_actor(); });                        // 19
        all.expect_refusal([&] { a.sleep_for(1ms).get(); });                     // 20
        all.expect_refusal([&] { a.workers(); });                                // 21
        all.expect_refusal([&] { a.get_worker_info("b"); });                     // 22
        all.expect_refusal([&] { a.routes(); });                                 // 23
        all.expect_refusal([&] { a.debug_info(); });                             // 24
        all.expect_refusal([&] { a.system(); });                                 // 25
        all.expect_refusal([&] { a.leave(); });                                  // 26
        all.expect_refusal([&] { a.shutdown(); });                               // 27
        all.expect_refusal([&] { a.shutdown(false); });                          // 28
        all.expect_refusal([&] { local_nodes({"x"}); });                         // 29
        all.expect_refusal([&] { init_rpc(); });                                 // 30
        if (a.in_job()) return 31;
        // What goes does so in silence.
        auto copy = there;
        pending.cancel();
        pending.then([](int) { _exit(32); });
        there = {};
        copy = {};
        here = {};
        far = decltype(far)();
        near = decltype(near)();
        pending = {};
        nodes.clear();
        return all.first_open();
      });
      ASSERT_EQ(refused, 0) << "entry " << refused;
      EXPECT_TRUE(eventually([&] { return parent.calls() > before; }));
    }
    EXPECT_EQ(parent.end(), "");
    EXPECT_EQ(parent.wrong(), 0);
  }
  door->open();
  EXPECT_EQ(pending.get(), 1);
  EXPECT_EQ(there.to_here(), 42);
  EXPECT_EQ(request(far, add{1}).get(), 1);
  EXPECT_EQ(request(near, add{1}).get(), 1);
  there = {};
  shut_down(nodes);
}

// A blocking actor of CAF's, which the thread had before the fork.
TEST_P(forks, get_an_error_from_caf_s_own_requests) {
  auto nodes = start({"a", "b"});
  const auto near = nodes[0].spawn(count_from, 0);
  const auto far = nodes[0].spawn_on<count_from>("b", 0);
  {
    const caf::scoped_actor self(nodes[0].system());
    for (const auto& one : {near, far}) {
      const auto ask = [&] {
        int outcome = 0;
        self->request(one, caf::infinite, add{1})
            .receive([&](int) { outcome = 1; },
                     [&](const caf::error& why) {
                       outcome = to_fault(why).code == errc::not_initialized ? last_word : 2;
                     });
        return outcome;
      };
      EXPECT_EQ(in_child(ask), last_word);
      EXPECT_EQ(ask(), 1);
    }
  }
  shut_down(nodes);
}

TEST_P(forks, may_exit_where_they_are) {
  auto nodes = start({"a", "b"});
  const auto tensor = nodes[0].rpc_sync("b", "aten::ones", std::vector<std::int64_t>{1 << 16});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(in_child([&]() -> int {
                auto mine = std::move(nodes);  // goes with the process
                static auto keep = std::move(mine);
                std::exit(last_word);
              }),
              last_word);
    EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", i), 2 * i);
  }
  shut_down(nodes);
}

// ---- In handlers: who comes to the end of one has an answer that is not its own to give

int fork_and_return() { return fork(); }
int fork_and_throw() {
  const int child = fork();
  if (child == 0) throw std::runtime_error("in the child");
  return child;
}
int fork_and_call() {
  const int child = fork();
  if (child == 0) return this_node().rpc_sync<&twice>("a", 1);
  return child;
}
task<int> fork_and_co_return() {
  co_await later(1);
  co_return fork();
}
int fork_and_exit() {
  const int child = fork();
  if (child == 0) std::exit(last_word);
  return child;
}

using forker = actor<answers<fork_now, int>, accepts<add>, answers<total, int>>;
forker::behavior_type be_a_forker() {
  return {
      [](fork_now) { return static_cast<int>(fork()); },
      [](const add& message) {
        if (message.amount > 0) _exit(1);  // never in a child: it has ended before
      },
      [](total) { return 0; },
  };
}

TEST_P(forks, that_come_to_the_end_of_a_function_are_ended) {
  auto nodes = start({"a", "b"});
  for (const int from : {0, 1}) {  // from another node, and from its own
    EXPECT_EQ(status_of(nodes[from].rpc_sync<&fork_and_return>("b")), ended_by_troupe);
    EXPECT_EQ(status_of(nodes[from].rpc_sync<&fork_and_throw>("b")), ended_by_troupe);
    EXPECT_EQ(status_of(nodes[from].rpc_sync<&fork_and_call>("b")), ended_by_troupe);
    EXPECT_EQ(status_of(nodes[from].rpc_sync<&fork_and_co_return>("b")), ended_by_troupe);
    EXPECT_EQ(status_of(nodes[from].rpc_sync<&fork_and_exit>("b")), last_word);
    EXPECT_EQ(nodes[from].rpc_sync<&twice>("b", 21), 42);
  }
  shut_down(nodes);
}

TEST_P(forks, that_come_to_the_end_of_an_actors_handler_are_ended) {
  auto nodes = start({"a", "b"});
  for (const char* where : {"a", "b"}) {
    auto one = nodes[0].spawn_on<be_a_forker>(where);
    auto child = request(one, fork_now{});
    EXPECT_EQ(status_of(child.get()), ended_by_troupe);
    EXPECT_EQ(request(one, total{}).get(), 0);
  }
  shut_down(nodes);
}

TEST_P(forks, that_come_to_the_end_of_a_continuation_are_ended) {
  auto nodes = start({"a", "b"});
  auto child = nodes[0].rpc_async<&twice>("b", 1).then([](int) { return fork(); });
  EXPECT_EQ(status_of(child.get()), ended_by_troupe);
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", 21), 42);
  shut_down(nodes);
}

// ---- Programs are started as ever

int start_programs() {
  int failed = 0;
  if (system("exit 3") != 3 << 8) failed |= 1;
  if (auto* stream = popen("echo 42", "r")) {
    int x = 0;
    if (fscanf(stream, "%d", &x) != 1 || x != 42) failed |= 2;
    pclose(stream);
  }
  const char* const words[] = {"sh", "-c", "exit 4", nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, const_cast<char**>(words), environ) != 0 ||
      status_of(child) != 4)
    failed |= 4;
  child = fork();
  if (child == 0) {
    execv("/bin/sh", const_cast<char**>(words));
    _exit(1);
  }
  if (status_of(child) != 4) failed |= 8;
  return failed;
}

TEST_P(forks, programs_are_started_in_handlers_as_ever) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(nodes[0].rpc_sync<&start_programs>("b"), 0);
    EXPECT_EQ(nodes[0].rpc_sync<&start_programs>("a"), 0);
  }
  shut_down(nodes);
}

// Where no node lives any more, or none has lived yet, a process forks as it likes.
TEST(forks, of_a_process_without_nodes_may_have_their_own) {
  {
    auto before = local_nodes({"a", "b"});
    shut_down(before);
  }
  EXPECT_EQ(in_child([] {
              auto nodes = local_nodes({"a", "b"});
              const int answer = nodes[0].rpc_sync<&twice>("b", 2);
              shut_down(nodes);
              return answer;
            }),
            4);
}

}  // namespace
}  // namespace troupe::test
