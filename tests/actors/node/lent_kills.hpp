#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/actors/node/lending_job.hpp"

namespace troupe::test {

/// A job of three nodes that send one another tensors without pause, and keep some, while one of
/// the two others is killed at a random moment, after it was stopped for a while perhaps. What the
/// survivors hold must be what it was; once they have let it go, they have lent nothing, borrowed
/// nothing, and as much memory in use as before.
class lent_kill : public lending_job {
public:
  explicit lent_kill(std::uint64_t seed) : seed_(seed), random_(seed) {}
  void TestBody() override {}

  void play() {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    const auto victim = static_cast<std::size_t>(random_() % 2);  // in `ranks_`
    const auto dead = "worker" + std::to_string(victim + 1);
    survivors_ = {"worker0", "worker" + std::to_string(2 - victim)};
    std::vector<std::uint64_t> before;
    for (const auto& name : survivors_) {
      std::optional<std::uint64_t> once, twice;
      EXPECT_TRUE(eventually([&] {
        node_->rpc_sync<&let_go>(name);
        once = std::exchange(twice, in_use_without_loans(name));
        return once && once == twice;
      }));
      before.push_back(twice.value_or(0));
    }
    std::vector<future<bool>> wanderers;
    for (const auto* name : {"worker0", "worker1", "worker2"})
      wanderers.push_back(node_->rpc_async<&wander>(name, random_(), 1'000'000, 3u));
    EXPECT_TRUE(eventually([&] { return !in_use_without_loans("worker0"); }));  // some are lent
    pause(300'000);
    if (random_() % 3 == 0) {
      ranks_[victim]->stop();
      pause(200'000);
    }
    ranks_[victim]->kill();
    // Each sends to the dead one sooner or later. No other failure: each looks at what it gets.
    for (auto& one : wanderers) {
      try {
        one.get_for(time_limit);
        ADD_FAILURE() << "nobody was lost";
      } catch (const std::exception& e) {
        EXPECT_THAT(e.what(), testing::HasSubstr("its process has ended"));
      }
    }
    // Again and again: a call of the one that was killed may come to its turn late.
    EXPECT_TRUE(eventually([&] {
      bool as_before = true;
      for (const auto& name : survivors_) EXPECT_TRUE(node_->rpc_sync<&let_go>(name));
      for (std::size_t i = 0; i < survivors_.size(); ++i)
        as_before = as_before && in_use_without_loans(survivors_[i]) == before[i];
      return as_before;
    })) << "after the end of "
        << dead << ": " << account();
    for (const auto& name : survivors_)
      EXPECT_TRUE(eventually([&] { return node_->rpc_sync<&regions_mapped>(name) == 1; })) << name;
    EXPECT_TRUE(lends_to(survivors_[1])) << "nothing is lent any more";
  }

private:
  void pause(std::uint64_t most_microseconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % most_microseconds));
  }

  std::string account() {
    std::string out;
    for (const auto& name : survivors_)
      out += name + " has " + node_->rpc_sync<&loans_and_memory>(name) + "; ";
    return out;
  }

  // Nothing: something is lent or borrowed.
  std::optional<std::uint64_t> in_use_without_loans(const std::string& name) {
    const auto [loans, in_use] = node_->rpc_sync<&loans_and_in_use>(name);
    return loans == 0 ? std::optional(in_use) : std::nullopt;
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::string> survivors_;
};

/// Plays one seed after the other, with one kill each, until one goes wrong. With
/// TROUPE_KILL_SEED=n in the environment it plays that seed alone.
inline void kill_lenders(int kills, std::uint64_t first_seed) {
  if (const auto* const seed = std::getenv("TROUPE_KILL_SEED")) {
    first_seed = std::strtoull(seed, nullptr, 10);
    kills = 1;
  }
  for (int i = 0; i < kills && !testing::Test::HasFailure(); ++i) {
    lent_kill run(first_seed + static_cast<std::uint64_t>(i));
    run.play();
  }
}

}  // namespace troupe::test
