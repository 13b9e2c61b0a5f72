#include "tests/actors/node/kill_run.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

constexpr std::uint32_t ranks = 4;

}  // namespace

kill_run::kill_run(std::uint64_t of_seed, std::string over)
    : seed(of_seed), network(std::move(over)) {
  std::mt19937_64 random(seed);
  elects = random() % 8 == 0;
  // Without its leader a job ends, which leaves little to check: rarely.
  const bool leader_dies = elects || random() % 10 == 0;
  victims.push_back(leader_dies ? 0 : 1 + random() % (ranks - 1));
  if (random() % 4 > 0 || (leader_dies && !elects)) return;
  const auto second = static_cast<std::uint32_t>(1 + random() % (ranks - 1));
  if (second != victims[0]) victims.push_back(second);
}

std::vector<std::string> kill_run::play() const {
  std::vector<std::uint32_t> slow;
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto wrong = play_once(slow);
    if (!wrong.empty() || slow.empty()) return wrong;
  }
  return {"the shutdown of rank " + std::to_string(slow[0]) + " has waited for something"};
}

std::vector<std::string> kill_run::play_once(std::vector<std::uint32_t>& slow) const {
  slow.clear();
  const temporary_folder folder;
  std::mt19937_64 random(seed + 1'000'000);
  std::string list;
  for (const auto victim : victims) list += (list.empty() ? "" : ",") + std::to_string(victim);
  std::vector<std::unique_ptr<rank_process>> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<rank_process>(std::vector<std::string>{
        TROUPE_TEST_PROGRAM_DIR "/survivor_program", std::to_string(rank), std::to_string(ranks),
        folder.path().string(), std::to_string(seed), list, elects ? "elect" : "end", network}));
  const auto ready = [&](std::uint32_t rank) {
    return std::filesystem::exists(folder.path() / ("ready" + std::to_string(rank)));
  };
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    if (!eventually([&] { return ready(rank) || all[rank]->ended(); }) || all[rank]->ended())
      return {"rank " + std::to_string(rank) + " has not begun"};
  // The moment is what is random here: nothing is waited for.
  for (const auto victim : victims) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));
    all[victim]->kill();
  }
  std::vector<std::string> wrong;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (std::find(victims.begin(), victims.end(), rank) != victims.end()) continue;
    if (!eventually([&] { return all[rank]->ended(); }))
      wrong.push_back("rank " + std::to_string(rank) + " has not ended");
    else if (all[rank]->exit_code() == ended_slowly)
      slow.push_back(rank);
    else if (!all[rank]->ended_well())
      wrong.push_back("rank " + std::to_string(rank) + " has ended with an error");
  }
  return wrong;
}

void kill_at_random(const std::string& network, int kills, std::uint64_t first_seed) {
  const auto* given = std::getenv("TROUPE_KILL_SEED");
  if (given) first_seed = std::strtoull(given, nullptr, 10);
  const auto start = clock::now();
  int killed = 0;
  int jobs = 0;
  for (auto seed = first_seed; killed < kills; ++seed) {
    const kill_run one(seed, network);
    const auto wrong = one.play();
    for (const auto& what : wrong) ADD_FAILURE() << "seed " << seed << ": " << what;
    if (!wrong.empty())
      std::cout << "replay: TROUPE_KILL_SEED=" << seed << " kill_test --gtest_filter='*random*'\n"
                << std::flush;
    killed += static_cast<int>(one.victims.size());
    ++jobs;
    if (!wrong.empty() || given) break;
  }
  const std::chrono::duration<double> took = clock::now() - start;
  std::cout << killed << " processes killed over " << network << " in " << jobs << " jobs, "
            << took.count() << " s\n";
}

}  // namespace troupe::test
