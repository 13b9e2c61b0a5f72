// All of the matrix of which collective_matrix_test runs a sample.

#include "tests/actors/groups/collective_matrix_run.hpp"

namespace troupe::test {
namespace {

TEST(collective_matrix, is_right_in_every_case) { run_matrix(whole_matrix()); }

}  // namespace
}  // namespace troupe::test
