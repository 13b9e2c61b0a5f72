// A rank of a group that does what every backend has to do: group_conformance_program RANK
// WORLD_SIZE FILE BACKEND NAME TRANSPORT, where NAME is that of the backend that is to carry out an
// all_reduce, and TRANSPORT is "tcp" or "automatic". Exits with 0 if all was right.

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace {

// What is sent may be written. Where it is lent itself, the sender's next write copies while the
// receiver has not taken it, and not any more later.
void check_sends(const troupe::process_group& group, bool lends) {
  const auto copies = [] { return troupe::copy_on_write::count().copies; };
  constexpr std::int64_t count = 100'000;
  const auto x = at::full({count}, 5, at::kFloat), y = at::zeros({count});
  troupe::barrier(group);  // makes the backends
  for (const bool taken : {false, true}) {
    if (group.rank() == 0) troupe::send(group, x, 1);
    if (taken && group.rank() == 1) troupe::recv(group, y, 0);
    troupe::barrier(group);
    troupe::barrier(group);
    if (group.rank() == 0) {
      const auto before = copies();
      x.fill_(taken ? 7 : 6);
      EXPECT_EQ(copies() - before, lends && !taken ? 1u : 0u);
    }
    troupe::barrier(group);
    if (!taken && group.rank() == 1) troupe::recv(group, y, 0);
    if (group.rank() != 1) continue;
    EXPECT_TRUE(at::equal(y, at::full({count}, taken ? 6 : 5, at::kFloat)));
  }
}

}  // namespace

int main(int, char** argv) {
  using namespace troupe::test;
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = std::string("file://") + argv[3];
    if (std::string(argv[6]) == "tcp") options.transport = troupe::backend::tcp;
    const auto node = troupe::init_rpc(options);
    const std::string backend = argv[4];
    std::vector<int> all;
    for (int rank = 0; rank < std::stoi(argv[2]); ++rank) all.push_back(rank);
    const auto make = [&] { return node.world().new_group(all, {.backend = backend}); };
    const auto group = make();
    EXPECT_EQ(group.member("the test")
                  ->backend_of(troupe::groups::operation_kind::all_reduce, at::kFloat, at::kCPU),
              argv[5]);
    for (const auto dtype : moved_dtypes()) {
      // From the shortest way to the longest; all of them for one dtype.
      for (const std::int64_t count : {0, 13, 5'003, 70'000}) {
        if (count > 13 && (count > 5'003 ? dtype != at::kFloat : at::elementSize(dtype) < 2))
          continue;
        check_broadcast(group, dtype, count);
        check_gathers(group, dtype, count);
        check_all_to_all(group, dtype, count);
        for (const auto op : reductions_of(dtype)) check_reductions(group, dtype, op, count);
      }
    }
    check_coalesced(group);
    check_shapes(group);
    check_in_place(group);
    check_sends(group, false);
    if (std::string(argv[5]) == "shared")
      check_sends(
          node.world().new_group(
              all, {.backend = backend, .backend_options = {{"collectives", "send:lend>=0"}}}),
          true);
    check_disagreements(make, group.rank());
    troupe::barrier(group);
    node.shutdown(true, std::chrono::minutes(2));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], e.what());
    return 1;
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 2 : 0;
}
