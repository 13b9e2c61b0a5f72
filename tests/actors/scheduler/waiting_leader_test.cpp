// A thread that waits gets the network from the thread that drives it, however long a look at the
// network takes.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "troupe/actors/scheduler/thread_engine.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
namespace net = troupe::transport;

// Nothing ever comes; each look takes a while, as a few system calls do.
class slow_network final : public net::transport {
public:
  ~slow_network() override { ::close(event_); }

  std::vector<std::byte> address() const override { return {}; }
  void add_peer(net::rank_t, std::span<const std::byte>) override {}
  bool send(net::rank_t, std::uint64_t, frame&&, std::vector<net::outgoing_payload>&&) override {
    return false;
  }
  unsigned progress() override {
    const auto me = std::this_thread::get_id();
    looks_in_a_row = looks_at_it.exchange(me) == me ? looks_in_a_row + 1 : 1;
    if (me == waiting) ++looks_while_waiting;
    const auto end = clock::now() + 8us;
    while (clock::now() < end) {
    }
    return 0;
  }
  int event_fd() const override { return event_; }
  bool arm() override { return false; }
  void wake() override {}
  bool idle() const override { return true; }
  void close_peer(net::rank_t, bool) override {}
  std::vector<net::route> routes() const override { return {}; }
  net::counters count() const override { return {}; }

  std::atomic<std::thread::id> looks_at_it;
  std::atomic<int> looks_in_a_row{0};
  const std::thread::id waiting = std::this_thread::get_id();
  std::atomic<int> looks_while_waiting{0};

private:
  const int event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
};

class no_messages final : public dispatcher {
public:
  void dispatch(net::incoming_message&&, engine_unit&) override {}
  void peer_lost(net::rank_t, const net::peer_loss&) override {}
  clock::time_point run_timers(clock::time_point) override { return never; }
  void prepare_thread() noexcept override {}
  caf::resumable::resume_result resume(caf::resumable&, engine_unit&, std::size_t) override {
    return caf::resumable::done;
  }
  void run_between(function_ref<void()> body) override { body(); }
};

template <class Done>
bool soon(Done&& done) {
  const auto limit = clock::now() + 2s;
  while (!done() && clock::now() < limit) std::this_thread::yield();
  return done();
}

// It asks for it while the other looks, rather than sleep until it is woken for each answer.
TEST(waiting_thread, gets_a_slow_network_from_its_leader) {
  no_messages client;
  slow_network slow;
  // So long that a busy machine does not matter: the leader gives way after its look.
  thread_engine engine(client, {.ask_for_role = 1s});
  engine.start(slow);
  constexpr int rounds = 30;
  int led = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto another_leads = [&] {
      return slow.looks_at_it != slow.waiting && slow.looks_in_a_row > 20;
    };
    ASSERT_TRUE(soon(another_leads));
    completion never_comes;
    const int before = slow.looks_while_waiting;
    EXPECT_FALSE(engine.wait(never_comes, clock::now() + 2ms));
    led += slow.looks_while_waiting > before;
  }
  EXPECT_GE(led, 2 * rounds / 3);
  engine.end_waits();
  engine.stop([](caf::resumable*) {});
}

}  // namespace
}  // namespace troupe::test
