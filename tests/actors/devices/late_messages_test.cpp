// Calls and messages with tensors that a device has yet to compute: their sender goes on.

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "tests/actors/devices/device_testing.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rpc/one_way.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

at::Tensor halved(const at::Tensor& x) { return x / 2; }
at::Tensor sum_on_host(const at::Tensor& x, const at::Tensor& y) { return x.cpu()[0] + y; }

std::atomic<int> noted_calls{0};
void note_call(const at::Tensor& x) { noted_calls += static_cast<int>(x.cpu()[0].item<float>()); }

struct take_tensor {
  at::Tensor value;
};
TROUPE_MESSAGE(take_tensor, value)
struct take_number {
  double value;
};
TROUPE_MESSAGE(take_number, value)
struct what_came {};
TROUPE_MESSAGE(what_came)

using listener =
    actor<accepts<take_tensor>, accepts<take_number>, answers<what_came, std::vector<double>>>;

listener::behavior_type listen(listener::pointer) {
  auto all = std::make_shared<std::vector<double>>();
  return {
      [all](const take_tensor& x) { all->push_back(x.value.cpu()[0].item<float>()); },
      [all](const take_number& x) { all->push_back(x.value); },
      [all](const what_came&) { return *all; },
  };
}

at::Tensor halved_beside(const at::Tensor& x, const rref<int>&, const listener&) { return x / 2; }

class late_device_messages : public on_slow_devices {
protected:
  // A tensor that is not computed before `release`, on simulated devices.
  at::Tensor held(double value) {
    if (simulated() && !held_) {
      held_.emplace();
      // Not for ever: whoever waits for it shall fail by what it finds.
      accelerator::enqueue(
          guard().getStream(c10::Device(device(0))),
          [until = held_->get_future().share()] { until.wait_for(std::chrono::seconds(20)); });
    }
    return coming(value);
  }
  void release() {
    if (held_) held_->set_value();
    held_.reset();
  }
  bool computing() const { return !guard().queryStream(guard().getStream(c10::Device(device(0)))); }
  void TearDown() override {
    release();
    on_slow_devices::TearDown();
  }

private:
  std::optional<std::promise<void>> held_;
};
TROUPE_ON_DEVICES(late_device_messages);

TEST_P(late_device_messages, do_not_hold_their_sender_up) {
  auto nodes = start_mapped();
  for (const auto* whom : {"a", "b", "c"})
    for (int i = 0; i < 3; ++i) {
      const auto x = held(2.0 * i);
      const auto before = accelerator::counted();
      auto answer = nodes[0].rpc_async<&halved>(whom, x);
      if (simulated()) {
        EXPECT_TRUE(computing()) << "the call has waited";
        EXPECT_EQ(accelerator::counted().event_synchronizations, before.event_synchronizations);
        EXPECT_GT(accelerator::counted().pinned, before.pinned);
      }
      release();
      expect_all(answer.get(), i);
    }
  shut_down(nodes);
}

TEST_P(late_device_messages, carry_what_was_there_when_they_were_sent) {
  auto nodes = start_mapped();
  for (const auto* whom : {"a", "b", "c"})
    for (int i = 0; i < 5; ++i) {
      const auto x = held(2.0 * i);
      auto answer = nodes[0].rpc_async<&halved>(whom, x);
      x.fill_(77);
      release();
      expect_all(answer.get(), i);
      expect_all(x, 77);
    }
  shut_down(nodes);
}

TEST_P(late_device_messages, fail_with_their_peer) {
  auto nodes = start_mapped();
  const auto x = held(4);
  auto answer = nodes[0].rpc_async<&halved>("b", x);
  nodes[1].core().crash();
  release();
  EXPECT_EQ(fault_of<peer_lost>([&] { answer.get_for(time_limit); }).node, "b");
  expect_all(nodes[0].rpc_sync<&halved>("c", x), 2);
  for (auto& one : nodes) one.core().crash();
}

TEST_P(late_device_messages, carry_host_tensors_as_they_were) {
  auto nodes = start_mapped();
  for (const auto& y : {at::full({100'000}, 1.0), at::full({100}, 1.0).expand({1'000, 100})}) {
    const auto x = held(5);
    auto answer = nodes[0].rpc_async<&sum_on_host>("c", x, y);
    if (simulated()) {
      EXPECT_TRUE(computing());
    }
    at::Tensor(y).as_strided({1}, {1}).fill_(99);
    release();
    auto sums = answer.get();
    EXPECT_TRUE(sums.equal(at::full(y.sizes(), 6.0))) << sums.sum().item<float>();
  }
  shut_down(nodes);
}

TEST_P(late_device_messages, keep_their_place_among_those_of_an_actor) {
  auto nodes = start_mapped();
  const auto there = nodes[0].spawn_on<listen>("b");
  std::vector<double> expected;
  for (int i = 0; i < 30; ++i) {
    if (i % 3 == 0)
      send(there, take_tensor{coming(i)});
    else if (i % 3 == 1)
      send(there, take_tensor{at::full({100'000}, static_cast<double>(i))});
    else
      send(there, take_number{static_cast<double>(i)});
    expected.push_back(i);
  }
  EXPECT_EQ(request(there, what_came{}).get(), expected);
  shut_down(nodes);
}

TEST_P(late_device_messages, have_left_before_a_shutdown_ends) {
  auto nodes = start_mapped();
  noted_calls = 0;
  for (int i = 0; i < 5; ++i) {
    auto& core = nodes[0].core();
    detail::call_one_way<&note_call>(core.agent(), core.find("b"), {}, held(1));
  }
  std::jthread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    release();
  });
  shut_down(nodes);
  EXPECT_EQ(noted_calls, 5);
}

TEST_P(late_device_messages, fail_by_name_with_their_device) {
  if (!simulated()) GTEST_SKIP() << "a device that fails is a simulated one";
  auto nodes = start_mapped();
  const auto x = held(4);
  {
    // What the call gives away comes back.
    const auto mine = nodes[0].make_rref(1);
    const auto here = nodes[0].spawn_on<listen>("a");
    auto answer = nodes[0].rpc_async<&halved_beside>("b", x, mine, here);
    EXPECT_EQ(nodes[0].debug_info().actors_held, 1u);
    const accelerator::failing now;
    const auto why = fault_of<encode_error>([&] { answer.get_for(time_limit); });
    EXPECT_THAT(why.text, HasSubstr("the device has failed"));
    EXPECT_EQ(why.node, "b");
    EXPECT_THAT(why.function, HasSubstr("halved"));
  }
  EXPECT_TRUE(eventually([&] {
    return nodes[0].debug_info().actors_held == 0 && nodes[0].core().rrefs().count().owned == 0;
  }));
  release();
  expect_all(nodes[0].rpc_sync<&halved>("b", x), 2);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
