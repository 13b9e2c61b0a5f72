// Random programs on bad networks, a seed each. TROUPE_SEED=n runs that one alone and prints what
// happened; TROUPE_SEEDS=n runs so many.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tests/actors/rref/random_rrefs.hpp"
#include "tests/actors/simulation/random_run.hpp"

namespace troupe::test {

namespace {

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string running() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(test->test_suite_name()) + '.' + test->name();
}

void print_replay(std::uint64_t seed) {
  std::cout << "replay: TROUPE_SEED=" << seed
            << " simulation_seeds_test --gtest_filter=" << running() << "\n"
            << std::flush;
}

std::uint64_t playing = 0;

// A run that goes wrong may not get as far as to end in order.
[[noreturn]] void print_replay_and_abort() {
  std::cout << "seed " << playing << " ended the program\n";
  print_replay(playing);
  std::abort();
}

template <class Run>
void run_seed(std::uint64_t seed) {
  playing = seed;
  std::set_terminate(&print_replay_and_abort);
  std::vector<std::string> wrong;
  try {
    wrong = Run(seed).run();
  } catch (const std::exception& e) {
    wrong.push_back(e.what());
  }
  for (const auto& what : wrong) ADD_FAILURE() << "seed " << seed << ": " << what;
  if (!wrong.empty()) print_replay(seed);
}

template <class Run>
void run_seeds(std::uint64_t usual) {
  if (const auto one = number_in("TROUPE_SEED", 0)) return run_seed<Run>(one);
  const auto first = number_in("TROUPE_FIRST_SEED", 1);
  const auto count = number_in("TROUPE_SEEDS", usual);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    run_seed<Run>(seed);
    if (testing::Test::HasFailure()) return;
    if (seed % 1'000 == 0) std::cout << seed << " seeds are clean\n" << std::flush;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << count << " seeds in " << took.count() << " s\n";
}

template <class Run>
void repeat_seeds() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint64_t steps[2];
    for (auto& count : steps) {
      Run one(seed);
      one.run();
      count = one.steps();
    }
    EXPECT_EQ(steps[0], steps[1]) << "seed " << seed;
  }
}

TEST(random_runs, are_clean) { run_seeds<random_run>(700); }
TEST(random_runs, do_the_same_with_the_same_seed) { repeat_seeds<random_run>(); }

TEST(random_rref_runs, are_clean) { run_seeds<random_rrefs>(400); }
TEST(random_rref_runs, may_end_at_once) { run_seeds<hurried_rrefs>(200); }
TEST(random_rref_runs, do_the_same_with_the_same_seed) { repeat_seeds<random_rrefs>(); }

}  // namespace

}  // namespace troupe::test
