// A sample of all collectives, dtypes, reductions, shapes, numbers of ranks and places, in which
// every two values of two of them meet. `make soak` runs all (collective_matrix_soak_test.cpp).

#include "tests/actors/groups/collective_matrix_run.hpp"

namespace troupe::test {
namespace {

TEST(collective_matrix, is_right_in_every_two_values) {
  std::vector<std::string> missing;
  const auto plan = pairwise_matrix(missing);
  EXPECT_EQ(missing, std::vector<std::string>());
  EXPECT_GT(cases_in(plan), 600u);
  run_matrix(plan);
}

}  // namespace
}  // namespace troupe::test
