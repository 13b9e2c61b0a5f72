// Calls with tensors that devices have not computed yet: streams are in order, and no thread waits
// for a device where it need not.
#include <set>

#include "tests/actors/devices/device_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

at::Tensor doubled(const at::Tensor& x) { return x * 2; }
at::Tensor plus_one(at::Tensor x) { return x.add_(1); }
std::tuple<std::string, std::int64_t, bool> where_it_runs(const at::Tensor& x) {
  const c10::impl::VirtualGuardImpl guard(x.device().type());
  const auto stream = guard.getStream(x.device());
  return {x.device().str(), stream.id(), guard.queryStream(stream)};
}
std::uint64_t address_of(const at::Tensor& x) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(x.const_data_ptr()));
}
// Of memory that is free again afterwards.
std::uint64_t address_of_larger(const at::Tensor& x) {
  return address_of(at::full({1'000}, 1.0, x.options()));
}
std::vector<at::Tensor> swapped(const at::Tensor& x, const at::Tensor& y) { return {y * 2, x * 2}; }
at::Tensor sum_of_both(const at::Tensor& x, const at::Tensor& y) { return x + y; }

// On another node, and back.
at::Tensor by_another(const at::Tensor& x) {
  return this_node().rpc_sync<&plus_one>(this_node().name(), x) * 2;
}

class device_calls : public on_slow_devices {};
TROUPE_ON_DEVICES(device_calls);

TEST_P(device_calls, see_what_was_begun_before_them) {
  auto nodes = start_mapped();
  for (int i = 0; i < 50; ++i) {
    const auto x = coming(i);
    expect_all(nodes[0].rpc_sync<&doubled>("b", x), 2.0 * i);
    expect_all(nodes[0].rpc_sync<&doubled>(i % 2 == 0 ? "a" : "c", x), 2.0 * i);
  }
  shut_down(nodes);
}

TEST_P(device_calls, give_futures_for_which_streams_wait_and_not_threads) {
  auto nodes = start_mapped();
  for (int i = 0; i < 20; ++i) {
    auto answer = nodes[0].rpc_async<&doubled>("b", coming(i));
    answer.wait();
    const auto before = accelerator::counted();
    const auto y = answer.get() + 1;
    const auto after = accelerator::counted();
    EXPECT_EQ(after.stream_synchronizations, before.stream_synchronizations);
    EXPECT_EQ(after.event_synchronizations, before.event_synchronizations);
    EXPECT_EQ(y.device().str(), device(0));
    expect_all(y, 2.0 * i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_calls, honour_streams_of_the_program) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    future<at::Tensor> answer;
    {
      const c10::StreamGuard current(side_stream(0));
      answer = nodes[0].rpc_async<&doubled>("b", coming(i));
    }
    const c10::StreamGuard current(side_stream(0));
    const auto y = answer.get() + 1;
    expect_all(y, 2.0 * i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_calls, run_on_fresh_streams_while_their_tensors_arrive) {
  auto nodes = start_mapped();
  std::optional<accelerator::slow> slower;
  const auto x = coming(1, 0, 100'000);
  if (simulated()) {
    guard().synchronizeStream(guard().getStream(x.device()));
    slower.emplace(std::chrono::milliseconds(100));
  }
  const auto [first_device, first_stream, first_idle] = nodes[0].rpc_sync<&where_it_runs>("b", x);
  EXPECT_EQ(first_device, device(1));
  EXPECT_NE(first_stream, guard().getDefaultStream(c10::Device(device(1))).id());
  EXPECT_FALSE(simulated() && first_idle) << "the copy was waited for";
  EXPECT_NE(std::get<1>(nodes[0].rpc_sync<&where_it_runs>("b", x)), first_stream);
  shut_down(nodes);
}

// Copies wait for nothing: what a function has made may be in use still where it has left it.
TEST_P(device_calls, do_not_land_in_memory_that_functions_have_used) {
  auto nodes = start_mapped();
  std::set<std::uint64_t> used;
  for (int i = 0; i < 40; ++i)
    used.insert(nodes[0].rpc_sync<&address_of_larger>("b", coming(i, 0, 10)));
  for (int i = 0; i < 40; ++i)
    EXPECT_FALSE(used.contains(nodes[0].rpc_sync<&address_of>("b", coming(i)))) << i;
  shut_down(nodes);
}

TEST_P(device_calls, take_several_devices_at_once) {
  if (count() < 2) GTEST_SKIP() << "one device";
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto x = coming(i, 0), y = coming(10 * i, 1);
    const auto back = nodes[0].rpc_sync<&swapped>("b", x, y);
    ASSERT_EQ(back.size(), 2u);
    EXPECT_EQ(back[0].device().str(), device(1));
    EXPECT_EQ(back[1].device().str(), device(0));
    expect_all(back[0], 20.0 * i);
    expect_all(back[1], 2.0 * i);
  }
  shut_down(nodes);
}

TEST_P(device_calls, fail_by_name_for_tensors_on_different_devices) {
  if (count() < 2) GTEST_SKIP() << "one device";
  auto nodes = start_mapped();
  for (int i = 0; i < 5; ++i) {
    const auto x = coming(1, 0), y = coming(1, 1);
    const auto why = fault_of<remote_error>([&] { nodes[0].rpc_sync<&sum_of_both>("b", x, y); });
    EXPECT_EQ(why.node, "b");
    EXPECT_THAT(why.text, HasSubstr("same device"));
    expect_all(nodes[0].rpc_sync<&sum_of_both>("b", x, x), 2);
  }
  shut_down(nodes);
}

TEST_P(device_calls, may_be_nested) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    expect_all(nodes[0].rpc_sync<&by_another>("b", coming(i)), 2.0 * i + 2);
    expect_all(nodes[0].rpc_sync<&by_another>("a", coming(i)), 2.0 * i + 2);
  }
  shut_down(nodes);
}

TEST_P(device_calls, leave_devices_as_they_were_for_calls_without_them) {
  auto nodes = start_mapped();
  const auto before = accelerator::counted();
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(nodes[0].rpc_sync<&doubled>("b", at::ones({1'000})).equal(at::full({1'000}, 2.0)));
  const auto after = accelerator::counted();
  EXPECT_EQ(after.event_blocks, before.event_blocks);
  EXPECT_EQ(after.event_synchronizations, before.event_synchronizations);
  EXPECT_EQ(after.allocations, before.allocations);
  shut_down(nodes);
}

TEST_P(device_calls, may_be_many_at_once) {
  auto nodes = start_mapped();
  std::vector<future<at::Tensor>> answers;
  for (int i = 0; i < 40; ++i) answers.push_back(nodes[0].rpc_async<&doubled>("b", coming(i)));
  const auto all = when_all(answers).get();
  for (int i = 0; i < 40; ++i) expect_all(all[static_cast<std::size_t>(i)], 2.0 * i);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
