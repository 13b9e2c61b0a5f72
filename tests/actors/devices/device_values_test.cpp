// Values on devices in references, continuations and coroutines.
#include <thread>

#include "tests/actors/devices/device_testing.hpp"

namespace troupe::test {
namespace {

at::Tensor tripled(const at::Tensor& x) { return x * 3; }
at::Tensor added(const at::Tensor& x, const at::Tensor& y) { return x + y; }
at::Tensor made_there(const std::string& device, double value) {
  return at::full({1'000}, value - 1, at::TensorOptions().device(device)).add_(1);
}

int nothing_on_devices(int n) { return n; }

task<at::Tensor> tripled_twice(at::Tensor x) {
  const auto y = x + 0;
  const auto once = co_await this_node().rpc_async<&tripled>(this_node().name(), y);
  const auto z = once + 0;
  co_return co_await this_node().rpc_async<&tripled>(this_node().name(), z) + (y - y);
}

class device_values : public on_slow_devices {};
TROUPE_ON_DEVICES(device_values);

TEST_P(device_values, stay_and_are_fetched) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto there = nodes[0].remote<&tripled>("b", coming(i));
    const auto here = there.to_here();
    EXPECT_EQ(here.device().str(), device(0));
    expect_all(here, 3.0 * i);
    // As an argument, for its owner and for another node.
    expect_all(nodes[0].rpc_sync<&tripled>("b", there), 9.0 * i);
    const auto next = nodes[0].remote<&added>("b", there, coming(1));
    expect_all(next.to_here(), 3.0 * i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_values, of_the_node_itself_are_taken_in_order) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto mine = nodes[0].remote<&tripled>("a", coming(i));
    const c10::StreamGuard current(side_stream(0));
    expect_all(mine.to_here() + 1, 3.0 * i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_values, go_on_in_continuations) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto result = nodes[0]
                            .rpc_async<&tripled>("b", coming(i))
                            .then([](const at::Tensor& x) { return x + 1; })
                            .then([](const at::Tensor& x) { return x * 2; });
    const c10::StreamGuard current(side_stream(0));
    expect_all(result.get() + 1, 6.0 * i + 3);
  }
  shut_down(nodes);
}

TEST_P(device_values, are_awaited_together) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto both = when_all(nodes[0].rpc_async<&tripled>("b", coming(i)),
                               nodes[0].rpc_async<&tripled>("a", coming(i + 1)));
    const c10::StreamGuard current(side_stream(0));
    const auto [x, y] = both.get();
    expect_all(x + y, 6.0 * i + 3);
  }
  shut_down(nodes);
}

TEST_P(device_values, are_given_to_calls_while_they_come) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto x = nodes[0].rpc_async<&tripled>("b", coming(i));
    expect_all(nodes[0].rpc_async<&added>("b", x, coming(1)).get(), 3.0 * i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_values, go_through_coroutines) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    expect_all(nodes[0].rpc_sync<&tripled_twice>("b", coming(i)), 9.0 * i);
    expect_all(nodes[0].rpc_sync<&tripled_twice>("a", coming(i)), 9.0 * i);
  }
  shut_down(nodes);
}

// The streams that have taken a value use its memory after it is gone.
TEST_P(device_values, keep_memory_for_the_streams_that_took_them) {
  if (!simulated()) GTEST_SKIP() << "a GPU does not overwrite what is freed";
  auto nodes = start_mapped();
  const auto side = side_stream(0);
  const auto take_late = [&](auto&& take) {
    at::Tensor y;
    {
      const c10::StreamGuard current(side);
      auto x = take();
      accelerator::enqueue(side, [] { std::this_thread::sleep_for(100ms); });
      y = x + 1;
    }
    for (int i = 0; i < 4; ++i) nodes[0].rpc_sync<&tripled>("b", coming(1));
    const c10::StreamGuard current(side);
    expect_all(y, 7);
  };
  take_late(
      [&] { return when_all(std::vector{nodes[0].rpc_async<&tripled>("b", coming(2))}).get()[0]; });
  take_late([&] {
    const auto one = nodes[0].rpc_async<&tripled>("b", coming(2));
    return std::get<0>(when_all(one, one).get());
  });
  take_late([&] {
    return nodes[0]
        .rpc_async<&tripled>("b", coming(1))
        .then([](const at::Tensor& x) { return x * 2; })
        .get();
  });
  take_late([&] { return nodes[0].remote<&tripled>("a", coming(2)).to_here(); });
  take_late([&] { return nodes[0].remote<&tripled>("b", coming(2)).to_here(); });
  shut_down(nodes);
}

// No stream is known of but the one on which they are made.
TEST_P(device_values, are_taken_in_order_where_nothing_came_from_a_device) {
  auto nodes = start_mapped();
  const auto where = device(0);
  for (int i = 0; i < 10; ++i) {
    const auto mine = nodes[0].remote<&made_there>("a", where, i);
    const auto next = nodes[0].rpc_async<&nothing_on_devices>("b", i).then([where](int n) {
      return std::map<std::string, at::Tensor>{{"n", made_there(where, n)}};
    });
    promise<at::Tensor> own;
    std::thread([&] {
      const c10::StreamGuard current(side_stream(0));
      own.set_value(made_there(where, i));
    }).join();
    const c10::StreamGuard current(side_stream(0));
    expect_all(mine.to_here() + 1, i + 1);
    expect_all(next.get().at("n") + 1, i + 1);
    expect_all(own.get_future().get() + 1, i + 1);
  }
  shut_down(nodes);
}

TEST_P(device_values, are_made_where_nothing_came_from_a_device) {
  auto nodes = start_mapped();
  for (int i = 0; i < 10; ++i) {
    const auto x = nodes[0].rpc_sync<&made_there>("b", device(1), i);
    EXPECT_EQ(x.device().str(), device(0));
    expect_all(x, i);
    expect_all(nodes[0].remote<&made_there>("b", device(1), i).to_here(), i);
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
