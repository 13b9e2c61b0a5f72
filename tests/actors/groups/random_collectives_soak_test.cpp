// The random programs of random_collectives_test: TROUPE_SEEDS of them (5,000 by default), from a
// seed that is another one each time, or TROUPE_FIRST_SEED.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/actors/groups/random_collectives.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::test {
namespace {

TEST(random_collective_programs, are_clean_for_long) {
  const auto* seeds = std::getenv("TROUPE_SEEDS");
  const auto* given = std::getenv("TROUPE_FIRST_SEED");
  const std::uint64_t count = seeds ? std::strtoull(seeds, nullptr, 10) : 5'000;
  const std::uint64_t first =
      given ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device()()};
  log().set_level(spdlog::level::off);
  auto seed = first;
  for (; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    for (const auto& what : random_collectives(seed).run())
      ADD_FAILURE() << "seed " << seed << ": " << what;
    if (testing::Test::HasFailure())
      std::cout << "replay: TROUPE_SEED=" << seed << " random_collectives_test\n" << std::flush;
  }
  std::cout << seed - first << " seeds from " << first << " on\n";
}

}  // namespace
}  // namespace troupe::test
