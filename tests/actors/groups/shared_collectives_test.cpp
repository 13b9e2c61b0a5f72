// Collectives in shared memory, beside the reference: those that every backend has to pass. The
// ranks are nodes of one process here; tests/actors/groups/shared has processes.

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

const group_options on_one_host{.backend = "cpu:troupe"};

class shared_collectives : public testing::TestWithParam<int> {
protected:
  void on_all(const std::function<void(const process_group&)>& body) {
    local_group all(GetParam(), on_one_host);
    all.run([&](const process_group& group, int) { body(group); });
  }
};

// In entries and areas, directly, and in pieces. Of many ranks a sample.
std::vector<std::int64_t> shared_counts_of(int size) {
  return size > 3 ? std::vector<std::int64_t>{1, 20'003} : std::vector<std::int64_t>{0, 13, 5'003};
}

std::vector<at::ScalarType> shared_dtypes_of(int size) {
  return size > 3 ? std::vector{at::kBFloat16, at::kFloat} : moved_dtypes();
}

TEST_P(shared_collectives, move_every_dtype) {
  on_all([](const process_group& group) {
    for (const auto dtype : shared_dtypes_of(group.size())) {
      for (const auto count : shared_counts_of(group.size())) {
        check_broadcast(group, dtype, count);
        check_gathers(group, dtype, count);
        check_all_to_all(group, dtype, count);
      }
    }
  });
}

TEST_P(shared_collectives, combine_every_dtype) {
  on_all([](const process_group& group) {
    for (const auto dtype : shared_dtypes_of(group.size()))
      for (const auto op : reductions_of(dtype))
        for (const auto count : shared_counts_of(group.size()))
          check_reductions(group, dtype, op, count);
  });
}

TEST_P(shared_collectives, take_several_tensors) { on_all(&check_coalesced); }
TEST_P(shared_collectives, take_tensors_of_any_shape) { on_all(&check_shapes); }
TEST_P(shared_collectives, write_in_place) { on_all(&check_in_place); }

INSTANTIATE_TEST_SUITE_P(sizes, shared_collectives, testing::Values(1, 2, 3, 8));

TEST(shared_disagreements, are_errors_on_all_ranks) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int rank) {
    check_disagreements([&] { return one.world().new_group({0, 1, 2}, on_one_host); }, rank);
  });
}

}  // namespace
}  // namespace troupe::test
