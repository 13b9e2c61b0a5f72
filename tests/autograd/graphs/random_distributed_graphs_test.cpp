// Random programs over two to five nodes, a seed each, against the same on one thread.
// TROUPE_SEED=n runs that one alone; TROUPE_SEEDS=n runs so many.

#include <iostream>

#include "tests/actors/node/job.hpp"
#include "tests/autograd/graphs/graph_check.hpp"
#include "tests/autograd/graphs/graph_seeds.hpp"
#include "tests/autograd/graphs/program_traits.hpp"

namespace troupe::test {
namespace {

constexpr std::uint64_t usual_seeds = 420;

class random_distributed_graphs : public on_networks {};
TROUPE_ON_NETWORKS(random_distributed_graphs);

TEST_P(random_distributed_graphs, have_the_gradients_of_one_thread) {
  std::map<std::uint32_t, std::vector<node>> jobs;
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  for_seeds("random_distributed_graphs_test", usual_seeds, [&](std::uint64_t seed) {
    const auto one = make_case(seed);
    auto& nodes = jobs[one.program.nodes];
    if (nodes.empty()) nodes = start({names.begin(), names.begin() + one.program.nodes});
    return check_case(nodes, one, [](const auto& condition) { return eventually(condition); });
  });
  for (auto& [size, nodes] : jobs) shut_down(nodes);
}

// Without these the test above would show less than it seems to.
TEST(random_distributed_graphs, hold_what_is_to_be_tested) {
  std::map<std::string, int> count;
  for (std::uint64_t seed = 1; seed <= usual_seeds; ++seed) {
    const auto one = make_case(seed);
    for (const auto& [what, has_it] : traits_of(one.program)) count[what] += has_it;
    ++count[std::to_string(one.program.nodes) + " nodes"];
    ++count[c10::toString(static_cast<c10::ScalarType>(one.program.dtype))];
    ++count[one.wanted.uses_all ? "messages that all roots use" : "messages without gradients"];
    ++count[one.exact ? "gradients of equal bits" : "gradients of nearly equal sums"];
  }
  for (const auto& [what, times] : count) {
    std::cout << times << " have " << what << '\n';
    EXPECT_GE(times, 15) << what;
  }
  // Fast passes must succeed in the last.
  for (const auto* what : {"calls", "nested calls", "references as arguments", "shared parameters",
                           "gradients of equal bits", "messages that all roots use"})
    EXPECT_GE(count[what], 200) << what;
}

}  // namespace
}  // namespace troupe::test
