// The form of each operation that returns a work: results, handles, errors.

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

constexpr int started_ranks = 3;
constexpr auto started_type = at::kFloat;

// An operation of one rank, what it writes, and what that has to become.
struct started_one {
  work handle;
  std::vector<at::Tensor> outputs, expected;
};

at::Tensor room_for(std::vector<std::int64_t> sizes) { return at::zeros(sizes, started_type); }

at::Tensor value_of(int rank, std::int64_t count, int salt = 0) {
  return values_of(rank, {count}, started_type, salt);
}

// Of ranks 0, 1, ..., each with `more` elements more than the one before.
std::vector<at::Tensor> values_of_ranks(std::int64_t count, std::int64_t more = 0, int salt = 0) {
  std::vector<at::Tensor> out;
  for (int rank = 0; rank < started_ranks; ++rank)
    out.push_back(value_of(rank, count + more * rank, salt));
  return out;
}

std::vector<at::Tensor> room_like(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const auto& one : tensors) out.push_back(room_for({one.numel()}));
  return out;
}

// What rank `rank` gets where the inputs of all are rows for each rank.
at::Tensor combined_row(int rank, std::int64_t count, reduce_op op) {
  std::vector<at::Tensor> all;
  for (int from = 0; from < started_ranks; ++from)
    all.push_back(values_of(from, {started_ranks, count}, started_type)[rank].contiguous());
  return combined(all, op);
}

// One of the operations, for tensors of about `count` elements.
struct starter {
  const char* name;  // in the test's name; the operation's own up to "_and_"
  started_one (*start)(const process_group& group, int me, std::int64_t count);
};

const starter starters[] = {
    {"broadcast",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = value_of(me, count);
       return {broadcast(group, x, 1, async), {x}, {value_of(1, count)}};
     }},
    {"all_reduce",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = value_of(me, count);
       return {
           all_reduce(group, x, async), {x}, {combined(values_of_ranks(count), reduce_op::sum)}};
     }},
    {"all_reduce_and_product",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = value_of(me, count);
       return {all_reduce(group, x, reduce_op::product, async),
               {x},
               {combined(values_of_ranks(count), reduce_op::product)}};
     }},
    {"all_reduce_and_several",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = value_of(me, count), y = value_of(me, 5, 2);
       return {all_reduce_coalesced(group, {x, y}, reduce_op::max, async),
               {x, y},
               {combined(values_of_ranks(count), reduce_op::max),
                combined(values_of_ranks(5, 0, 2), reduce_op::max)}};
     }},
    {"reduce",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = value_of(me, count);
       auto handle = reduce(group, x, 2, reduce_op::min, async);
       if (me != 2) return {handle, {}, {}};
       return {handle, {x}, {combined(values_of_ranks(count), reduce_op::min)}};
     }},
    {"all_gather",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto all = values_of_ranks(count, 3);
       const auto list = room_like(all);
       return {all_gather(group, list, all[static_cast<std::size_t>(me)], async), list, all};
     }},
    {"all_gather_into_tensor",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto all = room_for({started_ranks * count});
       return {all_gather_into_tensor(group, all, value_of(me, count), async),
               {all},
               {at::cat(values_of_ranks(count))}};
     }},
    {"all_gather_into_tensor_and_several",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = room_for({started_ranks * count}), y = room_for({started_ranks * 5});
       return {
           all_gather_coalesced(group, {x, y}, {value_of(me, count), value_of(me, 5, 2)}, async),
           {x, y},
           {at::cat(values_of_ranks(count)), at::cat(values_of_ranks(5, 0, 2))}};
     }},
    {"gather",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto all = values_of_ranks(count, 3);
       const auto& mine = all[static_cast<std::size_t>(me)];
       if (me != 1) return {gather(group, mine, {}, 1, async), {}, {}};
       const auto list = room_like(all);
       return {gather(group, mine, list, 1, async), list, all};
     }},
    {"scatter",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto all = values_of_ranks(count, 3);
       const auto& mine = all[static_cast<std::size_t>(me)];
       const auto x = room_for({mine.numel()});
       return {scatter(group, x, me == 2 ? all : std::vector<at::Tensor>(), 2, async), {x}, {mine}};
     }},
    {"reduce_scatter",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       std::vector<at::Tensor> parts;
       const auto rows = values_of(me, {started_ranks, count}, started_type);
       for (int to = 0; to < started_ranks; ++to) parts.push_back(rows[to].clone());
       const auto x = room_for({count});
       return {reduce_scatter(group, x, parts, reduce_op::sum, async),
               {x},
               {combined_row(me, count, reduce_op::sum)}};
     }},
    {"reduce_scatter_tensor",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = room_for({count});
       const auto rows = values_of(me, {started_ranks, count}, started_type);
       return {reduce_scatter_tensor(group, x, rows, reduce_op::max, async),
               {x},
               {combined_row(me, count, reduce_op::max)}};
     }},
    {"reduce_scatter_tensor_and_several",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       const auto x = room_for({count}), y = room_for({5});
       const auto rows = values_of(me, {started_ranks, count}, started_type),
                  more = values_of(me, {started_ranks, 5}, started_type);
       return {reduce_scatter_coalesced(group, {x, y}, {rows, more}, reduce_op::sum, async),
               {x, y},
               {combined_row(me, count, reduce_op::sum), combined_row(me, 5, reduce_op::sum)}};
     }},
    {"all_to_all",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       // From rank a to rank b go count + a + 2b elements.
       started_one out;
       std::vector<at::Tensor> inputs;
       for (int other = 0; other < started_ranks; ++other) {
         inputs.push_back(value_of(me, count + me + 2 * other, other));
         out.expected.push_back(value_of(other, count + other + 2 * me, me));
       }
       out.outputs = room_like(out.expected);
       out.handle = all_to_all(group, out.outputs, inputs, async);
       return out;
     }},
    {"all_to_all_single",
     [](const process_group& group, int me, std::int64_t count) -> started_one {
       std::vector<at::Tensor> inputs, outputs;
       std::vector<std::int64_t> in_rows, out_rows;
       for (int other = 0; other < started_ranks; ++other) {
         inputs.push_back(value_of(me, count + me + 2 * other, other));
         outputs.push_back(value_of(other, count + other + 2 * me, me));
         in_rows.push_back(inputs.back().numel());
         out_rows.push_back(outputs.back().numel());
       }
       const auto all = at::cat(outputs), x = room_for({all.numel()});
       return {all_to_all_single(group, x, at::cat(inputs), out_rows, in_rows, async), {x}, {all}};
     }},
    {"barrier",
     [](const process_group& group, int, std::int64_t) -> started_one {
       return {barrier(group, async), {}, {}};
     }},
};

std::string operation_of(const starter& one) {
  const std::string name = one.name;
  return name.substr(0, name.find("_and_"));
}

// It has ended well, and says so.
void check_ended(const started_one& one) {
  EXPECT_TRUE(one.handle.is_completed());
  EXPECT_TRUE(one.handle.is_success());
  EXPECT_EQ(one.handle.exception(), nullptr);
  EXPECT_GT(one.handle.duration().count(), 0);
  EXPECT_THAT(thrown_text<invalid_argument>([&] { one.handle.source_rank(); }),
              HasSubstr("has no source rank"));
  const auto results = one.handle.result();
  ASSERT_EQ(results.size(), one.outputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i].is_same(one.outputs[i]));
    EXPECT_TRUE(same_bits(results[i], one.expected[i]));
  }
}

task<std::size_t> awaited(work handle) {
  const auto first = co_await handle.get_future();
  const auto again = co_await handle.get_future();
  EXPECT_EQ(first.size(), again.size());
  co_return first.size();
}

task<std::string> awaited_error(work handle) {
  try {
    co_await handle.get_future();
  } catch (const group_failed& e) {
    co_return e.what();
  }
  co_return "";
}

group_options on_backend(const char* name) { return {.backend = std::string("cpu:") + name}; }

using operation_on = std::tuple<const char*, starter>;

class started_collectives : public testing::TestWithParam<operation_on> {
protected:
  const starter& one = std::get<1>(GetParam());
  const std::string operation = operation_of(one);
  local_group all{started_ranks, on_backend(std::get<0>(GetParam()))};
};

TEST_P(started_collectives, give_what_the_blocking_ones_do) {
  all.run([&](const process_group& group, int rank) {
    std::uint64_t sequence = 0;
    // With the entries, in memory of their own, and in several pieces.
    for (const std::int64_t count : {0, 7, 5'000, 150'000}) {
      const auto running = one.start(group, rank, count);
      EXPECT_TRUE(running.handle.valid());
      EXPECT_EQ(running.handle.name(), operation);
      EXPECT_EQ(running.handle.sequence_number(), ++sequence);
      if (count == 7)
        running.handle.wait(time_limit);
      else
        running.handle.wait();
      check_ended(running);
    }
  });
}

TEST_P(started_collectives, continue_as_futures) {
  all.run([&](const process_group& group, int rank) {
    const auto running = one.start(group, rank, 3'000);
    EXPECT_EQ(running.handle.get_future()
                  .then([](const std::vector<at::Tensor>& outputs) { return outputs.size(); })
                  .get(),
              running.outputs.size());
    check_ended(running);
    const auto next = one.start(group, rank, 9);
    EXPECT_EQ(awaited(next.handle).get(), next.outputs.size());
    check_ended(next);
  });
}

TEST_P(started_collectives, outlive_a_wait_that_was_too_short) {
  const auto running = one.start(all.groups[0], 0, 2'000);
  EXPECT_THAT(thrown_text<collective_timeout>([&] { running.handle.wait(5ms); }),
              HasSubstr(operation + ", sequence number 1 of group 'world/0,1,2#0', on rank 0, "
                                    "timed out after 5 ms"));
  EXPECT_FALSE(running.handle.is_completed());
  EXPECT_EQ(running.handle.exception(), nullptr);
  EXPECT_EQ(running.handle.duration().count(), 0);
  EXPECT_THROW(running.handle.is_success(), invalid_argument);
  all.run([&](const process_group& group, int rank) {
    const auto mine = rank == 0 ? running : one.start(group, rank, 2'000);
    mine.handle.wait();
    check_ended(mine);
  });
}

TEST_P(started_collectives, fail_with_their_group) {
  all.run([](const process_group& group, int) { barrier(group); });
  const auto running = one.start(all.groups[0], 0, 2'000);
  const auto error = awaited_error(running.handle);
  const auto chained =
      running.handle.get_future().then([](const std::vector<at::Tensor>&) { return 1; });
  EXPECT_THROW(running.handle.wait(5ms), collective_timeout);
  all.groups[1].abort();
  const auto text = thrown_text<group_failed>([&] { running.handle.wait(); });
  EXPECT_THAT(text, HasSubstr(operation + ", sequence number 2 of group 'world/0,1,2#0', on rank "
                                          "0: "));
  EXPECT_THAT(text, HasSubstr("was aborted on rank 1"));
  EXPECT_TRUE(running.handle.is_completed());
  EXPECT_FALSE(running.handle.is_success());
  EXPECT_NE(running.handle.exception(), nullptr);
  EXPECT_EQ(thrown_text<group_failed>([&] { std::rethrow_exception(running.handle.exception()); }),
            text);
  EXPECT_THROW(running.handle.result(), group_failed);
  EXPECT_THROW(chained.get(), group_failed);
  EXPECT_EQ(error.get(), text);
  EXPECT_THAT(thrown_text<group_failed>([&] { one.start(all.groups[0], 0, 1); }),
              HasSubstr("takes no more operations"));
}

INSTANTIATE_TEST_SUITE_P(operations, started_collectives,
                         testing::Combine(testing::Values("troupe", "network"),
                                          testing::ValuesIn(starters)),
                         [](const testing::TestParamInfo<operation_on>& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

class started_work : public testing::TestWithParam<const char*> {
protected:
  local_group all{started_ranks, on_backend(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(backends, started_work, testing::Values("troupe", "network"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(started_work, of_all_operations_is_waited_for_from_the_last_to_the_first) {
  all.run([](const process_group& group, int rank) {
    std::vector<started_one> running;
    for (const std::int64_t count : {7, 20'000})
      for (const auto& one : starters) running.push_back(one.start(group, rank, count));
    for (auto i = running.size(); i-- > 0;) {
      running[i].handle.wait();
      EXPECT_EQ(running[i].handle.sequence_number(), i + 1);
      SCOPED_TRACE(starters[i % std::size(starters)].name);
      check_ended(running[i]);
    }
  });
}

TEST_P(started_work, of_messages_has_no_number_but_a_source) {
  all.run([](const process_group& group, int rank) {
    const int next = (rank + 1) % started_ranks, last = (rank + 2) % started_ranks;
    // Without the group's memory first, and then with it.
    for (const std::int64_t count : {1, 50'000, 50'000}) {
      const auto in = room_for({count});
      const auto receives = irecv(group, in, last, 4);
      EXPECT_EQ(receives.name(), "recv");
      EXPECT_EQ(receives.sequence_number(), 0u);
      EXPECT_THAT(thrown_text<collective_timeout>([&] { receives.wait(2ms); }),
                  HasSubstr("recv of group 'world/0,1,2#0', on rank " + std::to_string(rank) +
                            ", timed out after 2 ms"));
      EXPECT_FALSE(receives.is_completed());
      EXPECT_EQ(receives.exception(), nullptr);
      EXPECT_THROW(receives.source_rank(), invalid_argument);
      const auto chained =
          receives.get_future().then([](const std::vector<at::Tensor>& got) { return got[0]; });
      barrier(group);
      const auto sends = isend(group, value_of(rank, count), next, 4);
      EXPECT_EQ(sends.name(), "send");
      EXPECT_EQ(sends.sequence_number(), 0u);
      sends.wait(time_limit);
      EXPECT_TRUE(sends.is_success());
      EXPECT_THROW(sends.source_rank(), invalid_argument);
      EXPECT_TRUE(sends.result().empty());
      EXPECT_EQ(awaited(sends).get(), 0u);
      EXPECT_EQ(awaited(receives).get(), 1u);
      EXPECT_TRUE(chained.get().is_same(in));
      EXPECT_TRUE(receives.is_success());
      EXPECT_EQ(receives.source_rank(), last);
      EXPECT_GT(receives.duration().count(), 0);
      EXPECT_TRUE(same_bits(in, value_of(last, count)));
    }
  });
}

TEST_P(started_work, of_batches_goes_all_ways_at_once) {
  all.run([](const process_group& group, int rank) {
    using direction = p2p_op::direction;
    for (const std::int64_t count : {3, 40'000, 40'000}) {
      std::vector<p2p_op> batch;
      std::vector<std::pair<at::Tensor, at::Tensor>> expected;
      for (int other = 0; other < started_ranks; ++other) {
        if (other == rank) continue;
        for (const int tag : {0, 1}) {
          batch.push_back({direction::isend, value_of(rank, count, tag), other, group, tag});
          batch.push_back({direction::irecv, room_for({count}), other, group, tag});
          expected.emplace_back(batch.back().tensor, value_of(other, count, tag));
        }
      }
      const auto works = batch_isend_irecv(batch);
      ASSERT_EQ(works.size(), batch.size());
      for (std::size_t i = works.size(); i-- > 0;) {
        works[i].wait();
        EXPECT_TRUE(works[i].is_success());
        if (batch[i].op == direction::irecv) {
          EXPECT_EQ(works[i].source_rank(), batch[i].peer);
        }
      }
      for (const auto& [got, sent] : expected) EXPECT_TRUE(same_bits(got, sent));
      barrier(group);
    }
  });
}

TEST_P(started_work, of_a_receive_fails_with_its_group_or_at_its_end) {
  all.groups[0].set_timeout(50ms);
  const auto in = room_for({4});
  const auto late = irecv(all.groups[0], in, 2);
  EXPECT_THAT(
      thrown_text<collective_timeout>([&] { late.wait(); }),
      HasSubstr("recv of group 'world/0,1,2#0', on rank 0, timed out after 50 ms: rank 2 is "
                "missing"));
  EXPECT_NE(late.exception(), nullptr);
  EXPECT_THROW(late.source_rank(), invalid_argument);
  all.groups[0].set_timeout(time_limit);
  // The group is as good as before.
  all.run([](const process_group& group, int) { barrier(group); });
  const auto waits = irecv(all.groups[0], in);
  const auto error = awaited_error(waits);
  all.groups[1].abort();
  const auto text = thrown_text<group_failed>([&] { waits.wait(); });
  EXPECT_THAT(text, HasSubstr("recv of group 'world/0,1,2#0', on rank 0: "));
  EXPECT_THAT(text, HasSubstr("was aborted on rank 1"));
  EXPECT_EQ(error.get(), text);
  EXPECT_FALSE(waits.is_success());
  EXPECT_THROW(waits.result(), group_failed);
}

}  // namespace
}  // namespace troupe::test
