// Sends and receives.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

TEST(point_to_point, goes_around_a_ring) {
  local_group all(4);
  all.run([](const process_group& group, int rank) {
    const int next = (rank + 1) % 4, last = (rank + 3) % 4;
    for (const std::int64_t count : {1, 100'000}) {
      const auto out = at::full({count}, rank, at::kFloat), in = at::zeros({count});
      if (rank == 0) {
        send(group, out, next);
        EXPECT_EQ(recv(group, in, last), last);
      } else {
        EXPECT_EQ(recv(group, in, last), last);
        send(group, out, next);
      }
      EXPECT_TRUE(at::equal(in, at::full({count}, last, at::kFloat)));
    }
  });
}

TEST(point_to_point, may_write_what_was_sent) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto x = at::zeros({50'000}, at::kInt);
    for (int i = 1; i <= 20; ++i) {
      if (rank == 0) {
        x.fill_(i);
        send(group, x, 1);
        x.fill_(-1);
      } else {
        recv(group, x, 0);
        EXPECT_TRUE(at::equal(x, at::full({50'000}, i, at::kInt)));
      }
    }
  });
}

TEST(point_to_point, takes_messages_by_tag_and_from_any_rank) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    const auto x = at::zeros({2}, at::kLong);
    if (rank > 0) {
      send(group, at::full({2}, 10 * rank, at::kLong), 0, 7);
      send(group, at::full({2}, 10 * rank + 1, at::kLong), 0, 8);
      send(group, at::full({2}, 10 * rank + 2, at::kLong), 0, 7);
      return;
    }
    EXPECT_EQ(recv(group, x, 2, 8), 2);
    EXPECT_EQ(x[0].item<int>(), 21);
    std::vector<int> seen(3);
    for (int i = 0; i < 4; ++i) {
      const auto from = recv(group, x, any_source, 7);
      // In the order in which each has sent them.
      EXPECT_EQ(x[1].item<int>(), 10 * from + 2 * seen.at(static_cast<std::size_t>(from))++);
    }
    EXPECT_EQ(recv(group, x, any_source, 8), 1);
    EXPECT_EQ(x[0].item<int>(), 11);
  });
}

TEST(point_to_point, starts_in_batches_and_alone) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    using direction = p2p_op::direction;
    const int next = (rank + 1) % 3, last = (rank + 2) % 3;
    const auto out = at::full({30'000}, rank, at::kFloat), in = at::zeros({30'000});
    const auto works = batch_isend_irecv(
        {{direction::isend, out, next, group}, {direction::irecv, in, last, group}});
    ASSERT_EQ(works.size(), 2u);
    for (const auto& one : works) one.wait();
    EXPECT_EQ(works[1].source_rank(), last);
    EXPECT_TRUE(works[1].result().at(0).is_same(in));
    EXPECT_EQ(in[29'999].item<int>(), last);
    // A receive that waits is in nobody's way.
    const auto later = irecv(group, in, last, 5);
    barrier(group);
    EXPECT_FALSE(later.is_completed());
    barrier(group);
    isend(group, out, next, 5).wait();
    later.wait();
    EXPECT_TRUE(later.is_success());
    EXPECT_THROW(batch_isend_irecv({}), invalid_argument);
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  batch_isend_irecv({{direction::isend, out, next, group},
                                     {direction::irecv, in, last, process_group()}});
                }),
                HasSubstr("All ops need to use the same group."));
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  batch_isend_irecv({{static_cast<direction>(9), out, next, group}});
                }),
                HasSubstr("Invalid ``op``"));
  });
}

// Where ranks share memory, large tensors are lent: in their order among small ones, by tag, to
// receives that were there before and to later ones.
TEST(point_to_point, lends_what_is_large) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    barrier(group);
    const auto large = at::full({70'000}, rank, at::kFloat),
               small = at::full({3}, rank, at::kFloat);
    if (rank > 0) {
      for (int i = 0; i < 300; ++i) {
        // More than can be lent at a time, and all of them are written before they are received.
        large.fill_(1000 * rank + i);
        send(group, large, 0, i % 2);
        send(group, small.fill_(1000 * rank + i), 0, i % 2);
        large.fill_(-1);
      }
      // A part of a large storage is copied: others are written.
      const auto rows = at::full({10, 10'000}, rank, at::kFloat);
      send(group, rows[3], 0, 7);
      barrier(group);
      return;
    }
    const auto x = at::zeros({70'000}), y = at::zeros({3}), row = at::zeros({10'000});
    std::vector<work> early;
    std::vector<at::Tensor> taken;
    for (int i = 0; i < 4; ++i) {
      taken.push_back(at::zeros({i % 2 == 0 ? 70'000 : 3}));
      early.push_back(irecv(group, taken.back(), 1, 1));
    }
    for (const auto& one : early) one.wait();
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(taken[static_cast<std::size_t>(i)].max().item<int>(), 1000 + 2 * (i / 2) + 1);
    for (int from = 1; from < 3; ++from)
      for (int tag = 0; tag < 2; ++tag)
        for (int i = from == 1 && tag == 1 ? 5 : tag; i < 300; i += 2) {
          recv(group, x, from, tag);
          recv(group, y, from, tag);
          ASSERT_TRUE(at::equal(x, at::full({70'000}, 1000 * from + i, at::kFloat))) << i;
          ASSERT_EQ(y[0].item<int>(), 1000 * from + i);
        }
    recv(group, row, 1, 7);
    // Of the wrong size: it is dropped, and the group goes on.
    EXPECT_THROW(recv(group, x, 2, 7), collective_mismatch);
    EXPECT_EQ(row[9'999].item<int>(), 1);
    barrier(group);
  });
}

TEST(point_to_point, refuses_what_does_not_fit) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto x = at::ones({4});
    EXPECT_THAT(
        thrown_text<invalid_argument>([&] { send(group, x, rank); }),
        HasSubstr("Invalid destination rank: destination rank should not be the same as the "
                  "rank of the current process."));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { recv(group, x, rank); }),
                HasSubstr("Invalid source rank"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { recv(group, x, 2); }),
                HasSubstr("Group rank 2 is not part of group"));
    if (rank == 0) {
      send(group, at::ones({3}, at::kDouble), 1);
      send(group, x, 1);
    } else {
      EXPECT_THAT(
          thrown_text<collective_mismatch>([&] { recv(group, x, 0); }),
          HasSubstr("rank 0 has sent 24 bytes of Double with tag 0, this recv takes 16 bytes "
                    "of Float"));
      EXPECT_EQ(recv(group, x, 0), 0);
    }
    barrier(group);
  });
}

TEST(point_to_point, ends_in_time) {
  local_group all(2, {.timeout = 50ms});
  const auto x = at::ones({4});
  EXPECT_THAT(thrown_text<collective_timeout>([&] { recv(all.groups[0], x, 1); }),
              HasSubstr("recv of group 'world/0,1#0', on rank 0, timed out after 50 ms: rank 1 is "
                        "missing"));
  const auto started = irecv(all.groups[0], x, 1);
  EXPECT_THROW(started.wait(1ms), collective_timeout);  // this wait alone
  EXPECT_FALSE(started.is_completed());
  EXPECT_THAT(thrown_text<collective_timeout>([&] { started.wait(); }),
              HasSubstr("recv of group 'world/0,1#0', on rank 0, timed out after 50 ms: rank 1 is "
                        "missing"));
  EXPECT_TRUE(started.is_completed());
  EXPECT_FALSE(started.is_success());
  // Nobody waits for these, or has a handle.
  const auto any = irecv(all.groups[0], x);
  irecv(all.groups[0], x, 1, 3);
  EXPECT_TRUE(eventually([&] { return any.is_completed(); }));
  EXPECT_NE(any.exception(), nullptr);
  // A message that comes later goes to a later receive.
  send(all.groups[1], at::full({4}, 9, at::kFloat), 0);
  EXPECT_EQ(recv(all.groups[0], x), 1);
  EXPECT_EQ(x[0].item<int>(), 9);
}

TEST(point_to_point, ends_in_the_time_of_a_simulation) {
  simulation cluster;
  const auto nodes = cluster.start(2);
  on_simulated(cluster, nodes, [&](const node& one, int rank) {
    const auto group = one.world().new_group({0, 1}, {.timeout = 1min});
    const auto begun = cluster.now();
    if (rank == 0) {
      const auto started = irecv(group, at::ones({4}), 1);
      EXPECT_THROW(started.wait(), collective_timeout);
      EXPECT_GE(cluster.now() - begun, 1min);
      EXPECT_LT(cluster.now() - begun, 2min);
    }
    barrier(one.world());
  });
}

}  // namespace
}  // namespace troupe::test
