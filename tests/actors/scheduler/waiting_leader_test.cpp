// A thread that waits gets the network from the thread that drives it, however long a look at the
// network takes.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
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

// What comes completes what somebody waits for.
class network_of_events final : public net::transport {
public:
  ~network_of_events() override { ::close(event_); }

  void bring(completion& what) {
    {
      const std::lock_guard guard(mutex_);
      coming_.push_back(&what);
    }
    wake();
  }

  std::vector<std::byte> address() const override { return {}; }
  void add_peer(net::rank_t, std::span<const std::byte>) override {}
  bool send(net::rank_t, std::uint64_t, frame&&, std::vector<net::outgoing_payload>&&) override {
    return false;
  }
  unsigned progress() override {
    std::uint64_t told = 0;
    [[maybe_unused]] const auto got = ::read(event_, &told, sizeof told);
    std::vector<completion*> come;
    {
      const std::lock_guard guard(mutex_);
      come.swap(coming_);
    }
    for (auto* one : come) one->complete();
    return static_cast<unsigned>(come.size());
  }
  int event_fd() const override { return event_; }
  bool arm() override {
    const std::lock_guard guard(mutex_);
    return coming_.empty();
  }
  void wake() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto wrote = ::write(event_, &one, sizeof one);
  }
  bool idle() const override { return true; }
  void close_peer(net::rank_t, bool) override {}
  std::vector<net::route> routes() const override { return {}; }
  net::counters count() const override { return {}; }

private:
  const int event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::mutex mutex_;
  std::vector<completion*> coming_;
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

// Threads wait, give up and take the network from each other at any moment: nothing that comes is
// left lying.
TEST(waiting_thread, misses_nothing_while_the_network_changes_hands) {
  no_messages client;
  network_of_events network;
  thread_engine engine(client, {.spin = 5us, .spin_busy = 20us});
  engine.start(network);
  constexpr int rounds = 1'000;
  std::atomic<int> late{0};
  const auto wait_often = [&](unsigned seed) {
    std::minstd_rand random(seed);
    for (int round = 0; round < rounds; ++round) {
      completion comes;
      const auto pause = std::chrono::microseconds(random() % 150);
      const auto patience = std::chrono::microseconds(random() % 150);
      if (random() % 3 == 0) {
        engine.wait(comes, clock::now() + patience);  // in vain
        network.bring(comes);
      } else {
        network.bring(comes);
        if (random() % 2 == 0) std::this_thread::sleep_for(pause);
      }
      if (!engine.wait(comes, clock::now() + 10s)) ++late;
      if (!comes.ready()) std::abort();  // the network has its address
      if (random() % 4 == 0) std::this_thread::sleep_for(pause);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(wait_often, seed);
  // And things come that nobody waits for, out of the engine's sight.
  for (int round = 0; round < rounds; ++round) {
    completion comes;
    network.bring(comes);
    if (!soon([&] { return comes.ready(); })) std::abort();
    std::this_thread::sleep_for(std::chrono::microseconds(round % 200));
  }
  for (auto& one : threads) one.join();
  EXPECT_EQ(late, 0);
  engine.end_waits();
  engine.stop([](caf::resumable*) {});
}

}  // namespace
}  // namespace troupe::test
