// The schedules between hosts with several ranks each, under Hockney's model.

#include "troupe/actors/groups/schedules/host_chains.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/actors/groups/schedules/schedule_simulation.hpp"
#include "tests/actors/groups/schedules/symbolic_data.hpp"

namespace troupe::groups::schedules {
namespace {

constexpr double stripe_bytes = 64;
constexpr link free_sums{1.0, 1.0 / 1024, 0};
constexpr link slow_sums{1.0, 1.0 / 1024, 1.0 / 65536};

double one_message(const link& over) { return over.alpha + over.beta * stripe_bytes; }

std::vector<schedule> of_all(schedule (*make_one)(int, int, int), int hosts, int stripes) {
  std::vector<schedule> out;
  for (int host = 0; host < hosts; ++host) out.push_back(make_one(host, hosts, stripes));
  return out;
}

simulated_run checked_all_reduce(int hosts, int stripes, const link& over) {
  symbolic_data data(hosts, stripes);
  for (int host = 0; host < hosts; ++host)
    for (int i = 0; i < stripes; ++i) data.at(host, i) = contributions::of(host, i);
  const auto done =
      simulation(of_all(chain_all_reduce, hosts, stripes), stripe_bytes, over, data).run();
  EXPECT_TRUE(done.complete);
  EXPECT_TRUE(data.fits());
  for (int i = 0; i < stripes; ++i) {
    contributions sum;
    for (int host = 0; host < hosts; ++host) sum = sum + contributions::of(host, i);
    for (int host = 0; host < hosts; ++host) EXPECT_EQ(data.at(host, i), sum) << host << " " << i;
  }
  return done;
}

TEST(host_chains, all_reduce_takes_what_the_formula_says) {
  for (const int hosts : {2, 3, 4, 5, 8, 33, 256})
    for (const int stripes : {1, 2, 3, 4, 5, 8, 20, 100}) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, " << stripes << " stripes");
      const auto done = checked_all_reduce(hosts, stripes, free_sums);
      const int turns = hosts == 2     ? (stripes == 1   ? 2
                                          : stripes <= 4 ? 2 * stripes - 1
                                                         : stripes + 4)
                        : stripes == 1 ? 2 * (hosts - 1)
                                       : 2 * hosts + 2 * stripes - 5;
      EXPECT_NEAR(done.seconds, turns * one_message(free_sums), 1e-9 * done.seconds);
      EXPECT_EQ(done.messages, 2L * stripes * (hosts - 1));
      EXPECT_EQ(done.bytes, 2.0 * stripes * stripe_bytes * (hosts - 1));
    }
}

// Sums hide behind messages, but for those of a stripe on its way down, and one for each stripe.
TEST(host_chains, sums_of_an_all_reduce_wait_for_nobody) {
  for (const int hosts : {2, 3, 8, 64})
    for (const int stripes : {1, 2, 8, 100}) {
      const auto less = checked_all_reduce(hosts, stripes, free_sums).seconds;
      const auto more = checked_all_reduce(hosts, stripes, slow_sums).seconds;
      const double sum = slow_sums.gamma * stripe_bytes;
      EXPECT_LE(more, less + (hosts - 2 + stripes) * sum + 1e-9 * less) << hosts << " " << stripes;
    }
}

TEST(host_chains, all_gather_takes_what_the_formula_says) {
  for (const int hosts : {2, 3, 4, 8, 33})
    for (const int stripes : {1, 2, 3, 8, 20}) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, " << stripes << " stripes");
      symbolic_data data(hosts, hosts * stripes);
      for (int host = 0; host < hosts; ++host)
        for (int i = 0; i < stripes; ++i)
          data.at(host, host * stripes + i) = contributions::of(host, i);
      const auto done =
          simulation(of_all(striped_all_gather, hosts, stripes), stripe_bytes, free_sums, data)
              .run();
      EXPECT_TRUE(done.complete);
      EXPECT_TRUE(data.fits());
      for (int host = 0; host < hosts; ++host)
        for (int from = 0; from < hosts; ++from)
          for (int i = 0; i < stripes; ++i)
            EXPECT_EQ(data.at(host, from * stripes + i), contributions::of(from, i));
      // What leaves ahead, and then one in, one out.
      const int turns = stripes <= 2 ? 2 * stripes * (hosts - 1) - 1 : (stripes + 2) * (hosts - 1);
      EXPECT_NEAR(done.seconds, turns * one_message(free_sums), 1e-9 * done.seconds);
      EXPECT_EQ(done.messages, 1L * stripes * hosts * (hosts - 1));
    }
}

TEST(host_chains, are_empty_on_one_host) {
  EXPECT_TRUE(chain_all_reduce(0, 1, 5).steps.empty());
  EXPECT_TRUE(striped_all_gather(0, 1, 5).steps.empty());
}

}  // namespace
}  // namespace troupe::groups::schedules
