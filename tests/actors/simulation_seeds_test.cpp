// Random programs on bad networks, a seed each. TROUPE_SEED=n runs that one alone and tells what
// happened; TROUPE_SEEDS=n runs so many.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tests/actors/random_run.hpp"

namespace troupe::test {

namespace {

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void tell_replay(std::uint64_t seed) {
  std::cout << "replay: TROUPE_SEED=" << seed << " simulation_seeds_test\n" << std::flush;
}

std::uint64_t playing = 0;

// A run that goes wrong may not get as far as to end in order.
[[noreturn]] void tell_replay_and_abort() {
  std::cout << "seed " << playing << " ended the program\n";
  tell_replay(playing);
  std::abort();
}

void run_seed(std::uint64_t seed) {
  playing = seed;
  std::set_terminate(&tell_replay_and_abort);
  std::vector<std::string> wrong;
  try {
    wrong = random_run(seed).run();
  } catch (const std::exception& e) {
    wrong.push_back(e.what());
  }
  for (const auto& what : wrong) ADD_FAILURE() << "seed " << seed << ": " << what;
  if (!wrong.empty()) tell_replay(seed);
}

TEST(random_runs, are_clean) {
  if (const auto one = number_in("TROUPE_SEED", 0)) return run_seed(one);
  const auto first = number_in("TROUPE_FIRST_SEED", 1);
  const auto count = number_in("TROUPE_SEEDS", 2'000);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    run_seed(seed);
    if (HasFailure()) return;
    if (seed % 1'000 == 0) std::cout << seed << " seeds are clean\n" << std::flush;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << count << " seeds in " << took.count() << " s\n";
}

TEST(random_runs, do_the_same_with_the_same_seed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint64_t steps[2];
    for (auto& count : steps) {
      random_run one(seed);
      one.run();
      count = one.steps();
    }
    EXPECT_EQ(steps[0], steps[1]) << "seed " << seed;
  }
}

}  // namespace

}  // namespace troupe::test
