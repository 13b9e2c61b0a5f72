#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>
#include <troupe/troupe.hpp>

using namespace std::chrono_literals;

namespace {

int add(int a, int b) { return a + b; }
std::string greet(const std::string& name) { return "hello " + name; }
void fail(const std::string& text) { throw std::out_of_range(text); }
at::Tensor twice(const at::Tensor& x) { return x * 2; }
void sleep_for(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
std::string who_am_i() { return troupe::this_node().name(); }

int bounce(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = troupe::this_node();
  return 1 + here.rpc_sync<&bounce>(other, depth - 1, here.name());
}

TEST(node, calls_a_function_elsewhere) {
  auto nodes = troupe::local_nodes({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_sync<&add>("b", 2, 3), 5);
  EXPECT_EQ(nodes[1].rpc_sync<&greet>(0, "a"), "hello a");
  EXPECT_EQ(nodes[1].rpc_sync<&who_am_i>("a"), "a");
  EXPECT_EQ(nodes[0].rpc_sync<&who_am_i>("a"), "a");
  auto x = at::arange(6).reshape({2, 3});
  EXPECT_TRUE(at::equal(nodes[0].rpc_sync<&twice>("b", x), x * 2));
}

TEST(node, throws_what_the_callee_threw) {
  auto nodes = troupe::local_nodes({"a", "b"});
  try {
    nodes[0].rpc_sync<&fail>("b", "no such thing");
    FAIL();
  } catch (const troupe::remote_error& e) {
    EXPECT_EQ(e.fault().type, "std::out_of_range");
    EXPECT_EQ(e.fault().text, "no such thing");
    EXPECT_EQ(e.node(), "b");
    EXPECT_NE(e.function().find("fail"), std::string::npos);
  }
}

TEST(node, times_out) {
  auto nodes = troupe::local_nodes({"a", "b"});
  auto start = troupe::clock::now();
  EXPECT_THROW(nodes[0].rpc_sync<&sleep_for>("b", 400, troupe::timeout(50ms)), troupe::rpc_timeout);
  EXPECT_LT(troupe::clock::now() - start, 300ms);
  EXPECT_EQ(nodes[0].rpc_sync<&add>("b", 2, 3), 5);
}

TEST(node, nested_calls_finish) {
  auto nodes = troupe::local_nodes({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_sync<&bounce>("b", 64, "a"), 64);
}

TEST(node, a_thousand_calls_in_flight) {
  auto nodes = troupe::local_nodes({"a", "b"});
  std::vector<troupe::future<int>> calls;
  for (int i = 0; i < 1000; ++i) calls.push_back(nodes[0].rpc_async<&add>("b", i, 1));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(calls[i].get(), i + 1);
}

TEST(node, shuts_down_gracefully) {
  auto nodes = troupe::local_nodes({"a", "b", "c"});
  auto late = nodes[1].rpc_async<&sleep_for>("c", 100);
  std::vector<std::thread> threads;
  for (auto& n : nodes) threads.emplace_back([&] { n.shutdown(); });
  for (auto& t : threads) t.join();
  EXPECT_NO_THROW(late.get());
  EXPECT_THROW(nodes[0].rpc_sync<&add>("b", 1, 2), troupe::not_initialized);
}

}  // namespace
