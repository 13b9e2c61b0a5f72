// What is passed on, among nodes that know each other by processes of their own, which end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/transport/lending/passing_fixture.hpp"
#include "troupe/transport/lending/lending_address.hpp"
#include "troupe/transport/system/process.hpp"

namespace troupe::transport::lending::test {
namespace {

// A process that does nothing until it is ended.
class idle_process {
public:
  idle_process() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto me = this_process();
      [[maybe_unused]] const auto written = ::write(ends[1], &me, sizeof me);
      for (;;) ::pause();
    }
    if (::read(ends[0], &who_, sizeof who_) != sizeof who_) std::abort();
    for (const int end : ends) ::close(end);
  }
  ~idle_process() { end(); }
  idle_process(const idle_process&) = delete;
  idle_process& operator=(const idle_process&) = delete;

  void end() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  const process_identity& who() const noexcept { return who_; }

private:
  pid_t pid_ = -1;
  process_identity who_;
};

struct apart_test : passing_test {
  idle_process of_a, of_b, of_c;

  std::vector<std::byte> address_of(lender& n, const idle_process& process) {
    auto where = decode(n->address(), secret);
    where.process = process.who();
    return encode(where, secret);
  }

  // b meets both others.
  void meet_again() {
    for (auto* const n : {&a, &b, &c}) n->net.reset();
    for (auto* const n : {&a, &b, &c}) n->received.lost.clear();
    begin(a, 0);
    begin(b, 1);
    begin(c, 2);
    a->add_peer(1, address_of(b, of_b));
    b->add_peer(0, address_of(a, of_a));
    c->add_peer(1, address_of(b, of_b));
    b->add_peer(2, address_of(c, of_c));
    settle();
  }

  void a_meets_c() {
    a->add_peer(2, address_of(c, of_c));
    c->add_peer(0, address_of(a, of_a));
    settle();
  }

  void wait() {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(10ms);
      settle();
    }
  }
};

TEST_F(apart_test, a_reader_that_comes_after_the_middle_was_lost_is_asked) {
  meet_again();
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  inner_sinks[0]->on_peer_lost(1, {loss_kind::broken, "it was stopped, perhaps"});
  a_meets_c();
  send(b, 2, again(at_b));
  at_c = take(c);
  EXPECT_EQ(b.in_use(), 0u);
  of_b.end();
  wait();
  EXPECT_GE(a.in_use(), size_passed);
  inner_sinks[2]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
  at_c = {};
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

struct either_order_test : apart_test, testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(each, either_order_test, testing::Bool());

TEST_P(either_order_test, memory_stays_for_readers_after_the_end_of_the_owners_node) {
  meet_again();
  a_meets_c();
  const bool by_b = GetParam();
  auto& middle = by_b ? b : c;
  auto& reader = by_b ? c : b;
  send(a, by_b ? 1 : 2, a.payload(size_passed, 3));
  auto between = take(middle);
  send(middle, by_b ? 2 : 1, again(between));
  auto read = take(reader);
  EXPECT_EQ(middle.in_use(), 0u);
  a.net.reset();
  (by_b ? of_b : of_c).end();
  std::this_thread::sleep_for(200ms);
  EXPECT_GE(a.in_use(), size_passed);
  EXPECT_TRUE(has_pattern(bytes(read), size_passed, 3));
  (by_b ? of_c : of_b).end();
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (a.in_use() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(a.in_use(), 0u);
}

// Nothing says when the tensors of such a reader are gone, so it is passed nothing.
TEST_F(lending_test, nodes_of_the_owners_process_keep_nothing) {
  idle_process of_b;
  lender c;
  for (auto* const n : {&a, &b}) n->net.reset();
  for (auto* const n : {&a, &b}) n->received.lost.clear();
  begin(a, 0);
  begin(b, 1);
  begin(c, 2);
  auto there = decode(b->address(), secret);
  there.process = of_b.who();
  a->add_peer(1, encode(there, secret));
  b->add_peer(0, a->address());
  a->add_peer(2, c->address());
  c->add_peer(0, a->address());
  int polls = 0;
  run_until([&] { return ++polls > 1000; }, 30s, a, b, c);
  send(a, 1, a.payload(size_passed, 3));
  const auto at_b = next(b);
  a.net.reset();
  c.net.reset();
  EXPECT_GE(a.in_use(), size_passed);
  of_b.end();
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (a.in_use() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(a.in_use(), 0u);
}

}  // namespace
}  // namespace troupe::transport::lending::test
