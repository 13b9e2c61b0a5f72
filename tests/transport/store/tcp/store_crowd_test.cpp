// A thousand clients of one store on the network.
#include <sys/resource.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/transport/store/tcp/raw_client.hpp"

namespace troupe::transport::test {
namespace {

using op = store_request::op;

constexpr std::size_t crowd = 1000;
constexpr std::size_t threads = 4;

class store_crowd : public testing::Test {
protected:
  void SetUp() override {
    rlimit descriptors{};
    getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
    // Both ends of each connection are in this process.
    if (descriptors.rlim_cur < 2 * crowd + 200)
      GTEST_SKIP() << "needs " << 2 * crowd + 200 << " descriptors (ulimit -Hn)";
  }

  // Calls `f` of the number of each client, on a few threads.
  template <class F>
  static void for_each_client(F&& f) {
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; ++t)
      running.emplace_back([&f, t] {
        for (auto i = t; i < crowd; i += threads) f(i);
      });
    for (auto& one : running) one.join();
  }

  // Connections that all ask for `request`.
  std::vector<store_link> waiting_for(const store_request& request) {
    std::vector<store_link> out(crowd);
    const auto bytes = encode(request);
    for_each_client([&](std::size_t i) {
      out[i] = connect_proven(served_);
      write_request(out[i], bytes);
    });
    return out;
  }

  served_store served_;
};

TEST_F(store_crowd, works_side_by_side) {
  std::vector<std::unique_ptr<tcp_store>> clients(crowd);
  for_each_client([&](std::size_t i) { clients[i] = served_.client(); });
  for_each_client([&](std::size_t i) {
    const auto name = std::to_string(i);
    clients[i]->set("client " + name, name);
    clients[i]->add("sum", static_cast<std::int64_t>(i));
    clients[i]->queue_push("queue", name);
    clients[i]->append("log", "x");
  });
  EXPECT_EQ(served_.server.count().clients, crowd);
  EXPECT_EQ(clients[7]->add("sum", 0), static_cast<std::int64_t>(crowd * (crowd - 1) / 2));
  EXPECT_EQ(clients[8]->get("log", wait_limit).size(), crowd);
  EXPECT_EQ(clients[9]->num_keys(), crowd + 2);
  const auto keys = clients[10]->list_keys("client ");
  ASSERT_EQ(keys.size(), crowd);
  EXPECT_EQ(clients[11]->multi_get(keys, wait_limit).size(), crowd);
  std::vector<std::string> taken(crowd);
  for_each_client(
      [&](std::size_t i) { taken[i] = to_text(clients[i]->queue_pop("queue", wait_limit)); });
  EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), crowd);
  EXPECT_EQ(clients[12]->queue_len("queue"), 0u);
}

TEST_F(store_crowd, waits_for_one_key) {
  const auto all = waiting_for({.what = op::get, .keys = {"go"}, .timeout = wait_limit});
  auto client = served_.client();
  EXPECT_EQ(client->add("n", 1), 1);  // they do not block others
  client->set("go", "now");
  for (const auto& one : all) ASSERT_EQ(to_text(read_reply(one).value), "now");
}

TEST_F(store_crowd, waits_for_values_of_one_queue) {
  const auto all = waiting_for({.what = op::queue_pop, .keys = {"queue"}, .timeout = wait_limit});
  auto client = served_.client();
  for (std::size_t i = 0; i < crowd; ++i) client->queue_push("queue", std::to_string(i));
  std::set<std::string> taken;
  for (const auto& one : all) taken.insert(to_text(read_reply(one).value));
  EXPECT_EQ(taken.size(), crowd);
}

}  // namespace
}  // namespace troupe::transport::test
