#include "troupe/apps/cartpole/environment.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace {

using cartpole::environment;
using cartpole::state;

const nlohmann::json& recorded() {
  static const auto document = [] {
    const std::string path = TROUPE_TEST_SOURCE_DIR "/data/cartpole_trajectories.json";
    std::ifstream file(path);
    EXPECT_TRUE(file) << "cannot read " << path;
    return nlohmann::json::parse(file);
  }();
  return document;
}

state from_bits(const std::string& text) {
  EXPECT_EQ(text.size(), 64u);
  state result{};
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::uint64_t bits = 0;
    const char* begin = text.data() + 16 * i;
    EXPECT_EQ(std::from_chars(begin, begin + 16, bits, 16).ptr, begin + 16);
    result[i] = std::bit_cast<double>(bits);
  }
  return result;
}

// Compares bits: 0.0 and -0.0 differ, as they do in Gymnasium.
bool same(const state& a, const state& b) {
  return std::bit_cast<std::array<std::uint64_t, 4>>(a) ==
         std::bit_cast<std::array<std::uint64_t, 4>>(b);
}

TEST(environment, replays_gymnasium_bit_for_bit) {
  ASSERT_GE(recorded()["episodes"].size(), 24u);
  int terminated = 0;
  int truncated = 0;
  for (const auto& row : recorded()["episodes"]) {
    const std::string actions = row["actions"];
    const std::string where = row["policy"].get<std::string>() + ", seed " + row["seed"].dump();
    ASSERT_EQ(actions.size(), row["states"].size()) << where;
    environment world(0);
    world.reset(from_bits(row["initial"]));
    for (std::size_t t = 0; t < actions.size(); ++t) {
      const auto result = world.step(actions[t] - '0');
      ASSERT_TRUE(same(world.current(), from_bits(row["states"][t]))) << where << ", step " << t;
      ASSERT_EQ(result.reward, 1.0);
      const bool last = t + 1 == actions.size();
      ASSERT_EQ(result.terminated, last && row["terminated"]) << where << ", step " << t;
      ASSERT_EQ(result.truncated, last && row["truncated"]) << where << ", step " << t;
      terminated += result.terminated;
      truncated += result.truncated;
    }
  }
  EXPECT_GT(terminated, 20);
  EXPECT_GE(truncated, 2);
}

TEST(environment, starts_where_gymnasium_starts) {
  for (const auto& row : recorded()["episodes"]) {
    environment world(row["seed"].get<std::uint64_t>());
    world.reset();
    EXPECT_TRUE(same(world.current(), from_bits(row["initial"]))) << "seed " << row["seed"];
  }
  for (const auto& row : recorded()["resets"]) {
    environment world(row["seed"].get<std::uint64_t>());
    for (const auto& initial : row["states"]) {
      world.reset();
      EXPECT_TRUE(same(world.current(), from_bits(initial))) << "seed " << row["seed"];
    }
  }
}

TEST(environment, observes_the_state_in_single_precision) {
  environment world(3);
  const auto first = world.reset();
  EXPECT_EQ(first, world.observe());
  world.step(1);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(world.observe()[i], static_cast<float>(world.current()[i]));
}

TEST(environment, initial_states_stay_in_their_range) {
  environment world(11);
  for (int i = 0; i < 1000; ++i) {
    world.reset();
    for (const double value : world.current()) {
      EXPECT_GE(value, -0.05);
      EXPECT_LT(value, 0.05);
    }
  }
}

TEST(environment, truncates_after_500_steps) {
  environment world(0);
  world.reset({0, 0, 0, 0});
  int steps = 0;
  cartpole::transition result{};
  do {
    const auto& s = world.current();
    result = world.step(s[2] + 0.5 * s[3] + 0.1 * s[0] + 0.2 * s[1] > 0);
    ++steps;
  } while (!result.done());
  EXPECT_EQ(steps, 500);
  EXPECT_TRUE(result.truncated);
  EXPECT_FALSE(result.terminated);
}

TEST(environment, refuses_what_makes_no_sense) {
  environment world(0);
  EXPECT_THROW(world.step(0), troupe::invalid_argument);  // not reset yet
  world.reset();
  EXPECT_THROW(world.step(2), troupe::invalid_argument);
  EXPECT_THROW(world.step(-1), troupe::invalid_argument);
  while (!world.step(0).done()) continue;
  EXPECT_THROW(world.step(0), troupe::invalid_argument);  // over
  world.reset();
  EXPECT_NO_THROW(world.step(0));
}

}  // namespace
