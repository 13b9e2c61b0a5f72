#include "tests/autograd/graphs/graph_seeds.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "troupe/messages/base/log.hpp"

namespace troupe::test {

namespace {

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

const char* program_here = "";
std::uint64_t seed_here = 0;

void print_replay() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::cout << "replay: TROUPE_SEED=" << seed_here << ' ' << program_here
            << " --gtest_filter=" << test->test_suite_name() << '.' << test->name() << std::endl;
}

// A run that goes wrong may not get as far as to end in order.
[[noreturn]] void print_replay_and_abort() {
  std::cout << "seed " << seed_here << " ended the program\n";
  print_replay();
  std::abort();
}

}  // namespace

void for_seeds(const char* program, std::uint64_t usual,
               const std::function<std::vector<std::string>(std::uint64_t)>& run) {
  program_here = program;
  std::set_terminate(&print_replay_and_abort);
  const auto alone = number_in("TROUPE_SEED", 0);
  if (!alone) log().set_level(spdlog::level::off);  // fast passes that fail as they must
  const auto first = alone ? alone : number_in("TROUPE_FIRST_SEED", 1);
  const auto count = alone ? 1 : number_in("TROUPE_SEEDS", usual);
  const auto start = std::chrono::steady_clock::now();
  for (auto seed = first; seed < first + count; ++seed) {
    seed_here = seed;
    std::vector<std::string> wrong;
    try {
      wrong = run(seed);
    } catch (const std::exception& e) {
      wrong.push_back(e.what());
    }
    for (const auto& what : wrong) ADD_FAILURE() << "seed " << seed << ": " << what;
    if (wrong.empty()) continue;
    print_replay();
    if (!number_in("TROUPE_GO_ON", 0)) return;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << count << " seeds in " << took.count() << " s\n";
}

}  // namespace troupe::test
