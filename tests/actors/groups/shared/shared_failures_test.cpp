// How operations of ranks of one host fail. Rules: docs/collectives_shared.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/actors/groups/shared/shared_ranks.hpp"

namespace troupe::groups {
namespace {

using test::asked_for;
using test::filled_tensor;
using test::shared_ranks;
using testing::HasSubstr;
using namespace std::chrono_literals;

// Runs `f` as every rank with a tensor of 5000 floats; what each threw, and whether its tensor is
// what it was.
struct failed_rank {
  std::string error;
  bool untouched = true;
};
std::vector<failed_rank> run_failing(shared_ranks& shared,
                                     const std::function<void(shared_group&, tensor_view)>& f) {
  std::vector<shared_setup> setups;
  for (int p = 0; p < shared.size(); ++p) setups.push_back(shared.setup_of(p));
  std::vector<failed_rank> out(setups.size());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < setups.size(); ++p)
    threads.emplace_back([&, p] {
      const auto tensor = filled_tensor(setups[p], static_cast<int>(p), 5000);
      shared_group group(std::move(setups[p]));
      try {
        f(group, tensor);
      } catch (const std::exception& e) {
        out[p].error = e.what();
      }
      for (std::int64_t i = 0; i < tensor.count; ++i)
        out[p].untouched =
            out[p].untouched && reinterpret_cast<float*>(tensor.data)[i] == static_cast<float>(p);
    });
  for (auto& t : threads) t.join();
  return out;
}

// Rule 2: compared on all ranks before the first store.
TEST(SharedFailures, NamesOnEveryRankWhoAskedForWhatAndWritesNothing) {
  struct other {
    const char* text;
    std::function<void(shared_group&, tensor_view, const time_limit&)> asks;
  };
  const auto sum = [](std::uint64_t sequence, tensor_view t, reduce_op op = reduce_op::sum) {
    return asked_for(operation_kind::all_reduce, sequence, t.dtype, t.count, 0, op);
  };
  const other others[] = {
      {"broadcast of 5000 elements of Float with root 1",
       [](auto& g, auto t, auto& l) {
         g.broadcast(asked_for(operation_kind::broadcast, 1, t.dtype, t.count, 1), t, l);
       }},
      {"all_reduce(max) of 5000 elements of Float",
       [&](auto& g, auto t, auto& l) { g.all_reduce(sum(1, t, reduce_op::max), t, 1, l); }},
      {"all_reduce(sum) of 4999 elements of Float",
       [&](auto& g, auto t, auto& l) {
         --t.count;
         g.all_reduce(sum(1, t), t, 1, l);
       }},
      {"all_reduce(sum) of 5000 elements of Int",
       [&](auto& g, auto t, auto& l) {
         t.dtype = c10::kInt;
         g.all_reduce(sum(1, t), t, 1, l);
       }},
      {"sequence number 2", [&](auto& g, auto t, auto& l) { g.all_reduce(sum(2, t), t, 1, l); }},
      {"barrier",
       [](auto& g, auto, auto& l) { g.barrier(asked_for(operation_kind::barrier, 1), l); }},
  };
  for (const auto& one : others) {
    shared_ranks shared(3);
    const auto failed = run_failing(shared, [&](shared_group& group, tensor_view tensor) {
      const time_limit limit(60s);
      if (group.rank() == 1)
        one.asks(group, tensor, limit);
      else
        group.all_reduce(sum(1, tensor), tensor, 1, limit);
    });
    for (std::size_t p = 0; p < failed.size(); ++p) {
      EXPECT_THAT(failed[p].error, HasSubstr("the ranks disagree"));
      EXPECT_THAT(failed[p].error, HasSubstr("ranks 0 and 2 asked for all_reduce(sum) of 5000 "
                                             "elements of Float"));
      EXPECT_THAT(failed[p].error, HasSubstr(one.text));
      EXPECT_THAT(failed[p].error, HasSubstr("on rank " + std::to_string(p)));
      EXPECT_TRUE(failed[p].untouched) << one.text;
    }
  }
}

TEST(SharedFailures, SaysWhichPartsDoNotFitAndGoesOn) {
  shared_ranks shared(2);
  const auto failed = run_failing(shared, [&](shared_group& group, tensor_view tensor) {
    const time_limit limit(60s);
    const auto me = group.rank();
    std::vector<tensor_view> in(2, {tensor.data, c10::kFloat, 3});
    std::vector<float> room(16);
    auto* to = reinterpret_cast<std::byte*>(room.data());
    std::vector<tensor_view> out(2, {to, c10::kFloat, me == 1 ? 4 : 3});
    std::string text;
    try {
      group.move(asked_for(operation_kind::all_to_all, 1), in, out, limit);
    } catch (const collective_mismatch& e) {
      text = e.what();
    }
    EXPECT_THAT(text, HasSubstr("rank 0 has 12 bytes for rank 1, which expects 16"));
    EXPECT_EQ(room[0], 0);
    // The ranks are in step still.
    group.barrier(asked_for(operation_kind::barrier, 2), limit);
    throw std::runtime_error("done");
  });
  for (const auto& one : failed) EXPECT_EQ(one.error, "done");
}

// More sizes than an area has room for.
TEST(SharedFailures, ComparesTheSizesOfManyTensors) {
  for (const std::size_t other :
       {std::size_t{0}, std::size_t{511}, std::size_t{512}, std::size_t{1099}, std::size_t{2000}}) {
    shared_ranks shared(3, 4096);
    const auto errors = shared.run([&](shared_group& group) {
      std::vector<std::uint64_t> sizes(1100, 7);
      if (group.rank() == 2 && other < sizes.size()) sizes[other] = 8;
      auto asked = asked_for(operation_kind::all_reduce, 1, c10::kFloat, 7700);
      asked.tensors = 1100;
      group.compare_sizes(asked, sizes, time_limit(60s));
    });
    for (const auto& e : errors) {
      if (other == 2000)
        EXPECT_EQ(e, "");
      else
        EXPECT_THAT(e, HasSubstr("the ranks disagree: tensor " + std::to_string(other) +
                                 " has 7 elements on rank 0 and 8 on rank 2"));
    }
  }
}

TEST(SharedFailures, RefusesAReductionOnEveryRank) {
  shared_ranks shared(2);
  const auto errors = shared.run([](shared_group& group) {
    std::int32_t x = 1;
    const tensor_view t{reinterpret_cast<std::byte*>(&x), c10::kInt, 1};
    const time_limit limit(60s);
    try {
      group.all_reduce(
          asked_for(operation_kind::all_reduce, 1, c10::kInt, 1, 0, reduce_op::premul_sum), t, 1,
          limit);
    } catch (const invalid_argument&) {
      group.barrier(asked_for(operation_kind::barrier, 2), limit);
      throw;
    }
  });
  for (const auto& e : errors) EXPECT_THAT(e, HasSubstr("Cannot use ReduceOp.PREMUL_SUM"));
}

// Spinning, and asleep since more than 50 us.
TEST(SharedFailures, LeavesSoonWhenAnyRankAborts) {
  for (const auto before : {0ms, 30ms})
    for (const int ranks : {2, 4}) {
      shared_ranks shared(ranks);
      std::atomic<std::int64_t> aborted_at{0};
      std::vector<std::atomic<std::int64_t>> left_at(static_cast<std::size_t>(ranks));
      const auto now = [] {
        return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
      };
      const auto errors = shared.run([&](shared_group& group) {
        const time_limit limit(60s);
        if (group.rank() == 1) {
          std::this_thread::sleep_for(before);
          aborted_at = now();
          group.abort("the user has had enough");
          EXPECT_FALSE(group.all_left());
        }
        try {
          group.barrier(asked_for(operation_kind::barrier, 7), limit);
        } catch (const group_failed&) {
          left_at[static_cast<std::size_t>(group.rank())] = now();
          throw;
        }
      });
      for (std::size_t p = 0; p < errors.size(); ++p) {
        EXPECT_THAT(errors[p], HasSubstr("barrier, sequence number 7 of group 'test', on rank " +
                                         std::to_string(p)));
        EXPECT_THAT(errors[p], HasSubstr("the user has had enough"));
        if (p != 1) {
          EXPECT_THAT(errors[p], HasSubstr("rank 1 has aborted the group"));
        }
        EXPECT_LT(left_at[p] - aborted_at, 10'000'000'000);  // no timing: it is not the deadline
      }
    }
}

TEST(SharedFailures, NamesTheRanksThatHaveNotComeInTime) {
  shared_ranks shared(4);
  std::atomic<int> failed{0};
  const auto errors = shared.run([&](shared_group& group) {
    if (group.rank() % 2 == 1) {  // come too late
      while (failed < 2) std::this_thread::sleep_for(1ms);
      group.barrier(asked_for(operation_kind::barrier, 3), time_limit(60s));
      return;
    }
    try {
      group.barrier(asked_for(operation_kind::barrier, 3),
                    time_limit(group.rank() == 0 ? 20ms : 60000ms));
    } catch (...) {
      ++failed;
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("timed out after 20 ms: ranks 1 and 3 are missing"));
  for (const int p : {1, 2, 3}) {
    EXPECT_THAT(errors[static_cast<std::size_t>(p)], HasSubstr("rank 0 has aborted the group"));
    EXPECT_THAT(errors[static_cast<std::size_t>(p)], HasSubstr("has timed out after 20 ms"));
  }
}

// Rule 5: until all have left, memory that others may write is not used again.
TEST(SharedFailures, KnowsWhoMayStillWriteAndWhatAllHaveCompleted) {
  shared_ranks shared(2);
  std::atomic<bool> timed_out{false};
  std::vector<shared_setup> setups = {shared.setup_of(0), shared.setup_of(1)};
  const auto tensor_of = [&](int p) {
    return filled_tensor(setups[static_cast<std::size_t>(p)], p, 5000);
  };
  const auto a = tensor_of(0), b = tensor_of(1);
  const auto ask = [](std::uint64_t s) {
    return asked_for(operation_kind::all_reduce, s, c10::kFloat, 5000);
  };
  std::thread late([&] {
    shared_group group(std::move(setups[1]));
    group.all_reduce(ask(1), b, 1, time_limit(60s));
    group.complete(ask(1));
    while (!timed_out) std::this_thread::sleep_for(1ms);
    EXPECT_THROW(group.all_reduce(ask(2), b, 1, time_limit(60s)), group_failed);
    EXPECT_FALSE(group.exposed());  // it had not begun
  });
  shared_group group(std::move(setups[0]));
  group.all_reduce(ask(1), a, 1, time_limit(60s));
  EXPECT_FALSE(group.exposed());
  // It may be one of several tensors.
  EXPECT_EQ(group.last_completed_by_all(), 0u);
  group.complete(ask(1));
  EXPECT_THROW(group.all_reduce(ask(2), a, 1, time_limit(20ms)), collective_timeout);
  EXPECT_TRUE(group.exposed());
  EXPECT_FALSE(group.all_left());
  EXPECT_TRUE(group.all_left(1u << 1));  // if rank 1 is dead
  EXPECT_EQ(group.last_completed_by_all(), 1u);
  timed_out = true;
  late.join();
  EXPECT_TRUE(group.all_left());
}

// A process that is killed inside of an operation; whoever learns of it aborts.
TEST(SharedFailures, FreesSurvivorsOfAKilledRank) {
  for (const int ranks : {2, 4}) {
    shared_ranks shared(ranks);
    std::vector<shared_setup> setups;
    for (int p = 0; p < ranks; ++p) setups.push_back(shared.setup_of(p));
    const auto victim = fork();
    if (victim == 0) {
      const auto tensor = filled_tensor(setups[0], 0, 5000);
      shared_group group(std::move(setups[0]));
      for (std::uint64_t s = 1;; ++s)
        group.all_reduce(asked_for(operation_kind::all_reduce, s, c10::kFloat, 5000), tensor, 1,
                         time_limit(60s));
    }
    std::atomic<std::uint64_t> done{0};
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    std::unique_ptr<shared_group> outside;
    for (int p = 1; p < ranks; ++p)
      threads.emplace_back([&, p] {
        const auto tensor = filled_tensor(setups[static_cast<std::size_t>(p)], p, 5000);
        shared_group group(setups[static_cast<std::size_t>(p)]);
        try {
          for (std::uint64_t s = 1;; ++s) {
            group.all_reduce(asked_for(operation_kind::all_reduce, s, c10::kFloat, 5000), tensor, 1,
                             time_limit(60s));
            ++done;
          }
        } catch (const group_failed& e) {
          errors[static_cast<std::size_t>(p)] = e.what();
        }
      });
    while (done < 20) std::this_thread::sleep_for(1ms);
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    outside = std::make_unique<shared_group>(setups[1]);
    outside->abort("rank 0 was lost");
    for (auto& t : threads) t.join();
    for (int p = 1; p < ranks; ++p)
      EXPECT_THAT(errors[static_cast<std::size_t>(p)], HasSubstr("rank 0 was lost"));
    EXPECT_TRUE(outside->all_left(1));
  }
}

TEST(SharedFailures, ExplainsRulesThatAreNone) {
  auto ways = collective_ways::measured(2, 2);
  ways.apply("all_reduce:staged>=100,all_reduce:direct>=1000");
  EXPECT_EQ(ways.choose(operation_kind::all_reduce, 99), way::box);
  EXPECT_EQ(ways.choose(operation_kind::all_reduce, 100), way::staged);
  EXPECT_EQ(ways.choose(operation_kind::all_reduce, 1000), way::direct);
  auto again = collective_ways::measured(8, 2);
  ways.apply("broadcast:lend>=4096,piece=65536,streaming=1000");
  again.apply(ways.text());
  EXPECT_EQ(again.choose(operation_kind::all_reduce, 100), way::staged);
  EXPECT_TRUE(again.may_take(operation_kind::broadcast, way::lend));
  EXPECT_EQ(again.piece, 65536u);
  EXPECT_EQ(again.streaming_from, 1000u);
  EXPECT_EQ(again.text(), ways.text());
  EXPECT_THAT(ways.explanation(),
              testing::AllOf(HasSubstr("all_reduce: box from 0 B, staged from 100 B, direct from "
                                       "1000 B\n"),
                             HasSubstr("lend: one step, whatever the size."),
                             HasSubstr("piece: 65536 B"), testing::Not(HasSubstr("shared: "))));
  for (const char* wrong : {"all_reduce", "all_reduce:direct", "reduce_all:direct>=1",
                            "all_reduce:indirect>=1", "all_reduce:direct>=x", "all_reduce>=1:box",
                            "reduce:shared>=0", "all_reduce:lend>=0", "piece=100", "pieces=4096"})
    EXPECT_THROW(ways.apply(wrong), invalid_argument) << wrong;
}

}  // namespace
}  // namespace troupe::groups
