#include "troupe/actors/cluster/peer_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {
namespace {

peer& add(peer_table& to, const std::string& name, transport::rank_t rank,
          std::uint64_t incarnation, const std::vector<std::string>& aliases = {}) {
  return to.add(std::make_unique<peer>(worker_info{name, rank}, incarnation, caf::node_id{}),
                aliases);
}

TEST(peer_table, finds_a_node_by_rank_and_by_each_of_its_names) {
  peer_table table;
  const auto& a = add(table, "a", 0, 1, {"first", "trainer"});
  const auto& b = add(table, "b", 1, 1);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(&table.find(destination(0)), &a);
    EXPECT_EQ(&table.find(destination("a")), &a);
    EXPECT_EQ(&table.find(destination("a")), &a);
    EXPECT_EQ(&table.find(destination("trainer")), &a);
    EXPECT_EQ(&table.find(destination("b")), &b);
  }
}

// A thread remembers the name that it has looked up last.
TEST(peer_table, a_name_that_has_moved_is_found_where_it_is_now) {
  peer_table table;
  const auto& earlier = add(table, "a", 0, 1);
  EXPECT_EQ(&table.find(destination("a")), &earlier);
  const auto& later = add(table, "a", 0, 2);
  EXPECT_EQ(&table.find(destination("a")), &later);
  add(table, "b", 1, 1, {"a"});
  EXPECT_EQ(table.find(destination("a")).rank(), 1u);
}

TEST(peer_table, a_name_moves_for_a_thread_that_knows_of_it) {
  peer_table table;
  const auto& earlier = add(table, "a", 0, 1);
  std::atomic<int> step{0};
  const peer* first = nullptr;
  const peer* second = nullptr;
  std::thread other([&] {
    first = &table.find(destination("a"));
    step = 1;
    step.notify_all();
    step.wait(1);
    second = &table.find(destination("a"));
  });
  step.wait(0);
  const auto& later = add(table, "a", 0, 2);
  step = 2;
  step.notify_all();
  other.join();
  EXPECT_EQ(first, &earlier);
  EXPECT_EQ(second, &later);
}

// Where another table lay, a name of that one is nothing.
TEST(peer_table, names_of_a_table_that_has_ended_are_forgotten) {
  std::optional<peer_table> table(std::in_place);
  add(*table, "a", 0, 1);
  EXPECT_EQ(table->find(destination("a")).rank(), 0u);
  table.emplace();
  EXPECT_THROW(table->find(destination("a")), unknown_worker);
  add(*table, "b", 0, 1);
  EXPECT_THROW(table->find(destination("a")), unknown_worker);
}

TEST(peer_table, unknown_and_unusual_names) {
  peer_table table;
  EXPECT_THROW(table.find(destination("")), unknown_worker);
  EXPECT_THROW(table.find(destination(0)), unknown_worker);
  EXPECT_THROW(table.find(destination(-1)), unknown_worker);
  const std::string prefix(64, 'x');
  const auto& exact = add(table, prefix, 0, 1);
  const auto& longer = add(table, prefix + "y", 1, 1);
  const auto& short_one = add(table, "x", 2, 1);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(&table.find(destination(prefix)), &exact);
    EXPECT_EQ(&table.find(destination(prefix + "y")), &longer);
    EXPECT_EQ(&table.find(destination("x")), &short_one);
    EXPECT_THROW(table.find(destination("xx")), unknown_worker);
    EXPECT_THROW(table.find(destination("")), unknown_worker);
  }
}

}  // namespace
}  // namespace troupe
