// The random programs of simulation_seeds_test for TROUPE_SOAK_SECONDS (60 by default), from
// TROUPE_FIRST_SEED on, or from another seed each time.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/actors/rref/random_rrefs.hpp"
#include "tests/actors/simulation/random_run.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::test {

namespace {

template <class Run>
void run_for_long() {
  using seconds = std::chrono::duration<double>;
  const auto* limit = std::getenv("TROUPE_SOAK_SECONDS");
  const auto* given = std::getenv("TROUPE_FIRST_SEED");
  const seconds wanted(limit ? std::atof(limit) : 60);
  const std::uint64_t first = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  log().set_level(spdlog::level::off);  // hours of lost nodes
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return seconds(std::chrono::steady_clock::now() - start); };
  auto seed = first;
  for (; passed() < wanted && !testing::Test::HasFailure(); ++seed) {
    for (const auto& what : Run(seed).run()) ADD_FAILURE() << "seed " << seed << ": " << what;
    if (testing::Test::HasFailure())
      std::cout << "replay: TROUPE_SEED=" << seed << " simulation_seeds_test\n" << std::flush;
  }
  std::cout << seed - first << " seeds from " << first << " on, "
            << static_cast<double>(seed - first) / passed().count() << " a second\n";
}

TEST(random_runs, are_clean_for_long) { run_for_long<random_run>(); }
TEST(random_rref_runs, are_clean_for_long) { run_for_long<random_rrefs>(); }
TEST(random_rref_runs, may_end_at_once_for_long) { run_for_long<hurried_rrefs>(); }

}  // namespace

}  // namespace troupe::test
