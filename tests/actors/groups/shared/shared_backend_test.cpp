// The backend on tensors, between processes with arenas of their own.
#include "troupe/actors/groups/shared/shared_backend.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/actors/groups/shared/backend_processes.hpp"
#include "tests/forking.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::groups {
namespace {

using test::as_processes;
using test::asked_operation;
using test::forked_exchange;
using test::request_of;
using test::values;
using namespace std::chrono_literals;

// Tensors in the arena; `count` decides the way.
int every_operation(backend& on, int rank, int size, std::int64_t count) {
  const auto total = [&](std::int64_t n) {
    auto sum = values(0, n);
    for (int p = 1; p < size; ++p) sum.add_(values(p, n));
    return sum;
  };
  asked_operation(operation_kind::barrier, {}, {}).run(on);
  {
    auto a = values(rank, count), b = values(rank, 7);
    asked_operation(operation_kind::all_reduce, {}, {a, b}).run(on);
    CHECK_OR_RETURN(at::equal(a, total(count)) && at::equal(b, total(7)), 1);
  }
  {
    auto a = rank == 1 ? values(5, count) : at::zeros({count});
    asked_operation(operation_kind::broadcast, {}, {a}, 1).run(on);
    CHECK_OR_RETURN(at::equal(a, values(5, count)), 2);
  }
  {
    const auto in = values(rank, count);
    std::vector<at::Tensor> out;
    if (rank == 1) out.push_back(at::empty({count}));
    asked_operation one(operation_kind::reduce, {in}, out, 1);
    one.run(on);
    CHECK_OR_RETURN(at::equal(in, values(rank, count)), 3);
    CHECK_OR_RETURN(rank != 1 || at::equal(one.outputs[0], total(count)), 4);
  }
  {
    auto all = at::empty({size, count});
    asked_operation(operation_kind::all_gather_into_tensor, {values(rank, count)}, {all}).run(on);
    for (int p = 0; p < size; ++p) CHECK_OR_RETURN(at::equal(all[p], values(p, count)), 5);
    // In place: the input is this rank's part.
    all.zero_();
    all[rank].copy_(values(rank, count));
    asked_operation(operation_kind::all_gather_into_tensor, {all[rank]}, {all}).run(on);
    for (int p = 0; p < size; ++p) CHECK_OR_RETURN(at::equal(all[p], values(p, count)), 6);
    auto mine = at::empty({count});
    asked_operation(operation_kind::reduce_scatter_tensor, {all}, {mine}).run(on);
    CHECK_OR_RETURN(at::equal(mine, values(rank, count).mul(size)), 7);
  }
  {
    // Rank p has p + 1 more for each, and splits are uneven.
    asked_operation one(operation_kind::all_to_all_single, {}, {});
    std::int64_t sent = 0, received = 0;
    for (int q = 0; q < size; ++q) {
      one.input_splits.push_back(count / size + rank + q);
      one.output_splits.push_back(count / size + q + rank);
      sent += one.input_splits.back();
      received += one.output_splits.back();
    }
    one.inputs = {values(rank, sent)};
    one.outputs = {at::empty({received})};
    one.what.dtype = at::kFloat;
    one.run(on);
    std::int64_t at = 0;
    for (int p = 0; p < size; ++p) {
      std::int64_t before = 0;
      for (int q = 0; q < rank; ++q) before += count / size + p + q;
      const auto n = one.output_splits[static_cast<std::size_t>(p)];
      CHECK_OR_RETURN(
          at::equal(one.outputs[0].narrow(0, at, n), values(p, before + n).narrow(0, before, n)),
          8);
      at += n;
    }
  }
  {
    std::vector<at::Tensor> in;
    for (int q = 0; q < size; ++q) in.push_back(values(rank + q, count));
    auto out = at::empty({count});
    asked_operation(operation_kind::reduce_scatter, in, {out}).run(on);
    auto sum = values(rank, count);
    for (int p = 1; p < size; ++p) sum.add_(values(p + rank, count));
    CHECK_OR_RETURN(at::equal(out, sum), 9);
  }
  return 0;
}

TEST(SharedBackend, CarriesOutOperationsBetweenProcesses) {
  for (const int ranks : {2, 3})
    as_processes(ranks, [&](backend& on, int rank, forked_exchange&) {
      for (const std::int64_t count : {1, 100, 50'000})
        if (const int bad = every_operation(on, rank, ranks, count)) return bad;
      // Of memory that the others have not mapped.
      std::vector<float> outside(50'000, static_cast<float>(rank));
      auto a = at::from_blob(outside.data(), {50'000});
      asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
      return outside[49'999] == static_cast<float>(ranks * (ranks - 1) / 2) ? 0 : 20;
    });
}

// Whatever can be lent, or has one result, is.
TEST(SharedBackend, CarriesOutOperationsWithoutMovingData) {
  as_processes(
      3,
      [&](backend& on, int rank, forked_exchange&) {
        for (const std::int64_t count : {1, 100, 50'000})
          if (const int bad = every_operation(on, rank, 3, count)) return bad;
        return 0;
      },
      "broadcast:lend>=0,all_gather:lend>=0,all_reduce:shared>=0,all_gather_into_tensor:shared>=0");
}

// Rule 1: what is written in place is the tensor's alone; who shares its memory keeps the old.
TEST(SharedBackend, LeavesOtherOwnersOfMemoryAlone) {
  as_processes(2, [&](backend& on, int rank, forked_exchange&) {
    auto a = values(rank, 50'000);
    const auto copy = a._lazy_clone();
    asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
    CHECK_OR_RETURN(at::equal(copy, values(rank, 50'000)), 1);
    CHECK_OR_RETURN(at::equal(a, values(0, 50'000).add(values(1, 50'000))), 2);
    return 0;
  });
}

// Rule 2, of several tensors, whose sizes differ in sum, in number, or in neither.
TEST(SharedBackend, WritesNoneOfSeveralTensorsIfOneDoesNotFit) {
  as_processes(2, [&](backend& on, int rank, forked_exchange&) {
    const std::vector<std::vector<std::int64_t>> sizes_of_rank[] = {
        {{50'000, 8, 9}, {4, 8}, {4, 8}, {4, 8}, {}},
        {{50'000, 9, 8}, {4, 9}, {4, 4, 4}, {12}, {4}}};
    for (const auto kind :
         {operation_kind::all_reduce, operation_kind::broadcast,
          operation_kind::all_gather_into_tensor, operation_kind::reduce_scatter_tensor})
      for (const auto& sizes : sizes_of_rank[rank]) {
        asked_operation one(kind, {}, {});
        one.what.dtype = at::kFloat;
        for (const auto n : sizes) {
          const bool gathers = kind == operation_kind::all_gather_into_tensor;
          one.outputs.push_back(at::full({gathers ? 2 * n : n}, static_cast<float>(rank)));
          if (gathers) one.inputs.push_back(at::full({n}, 7.f));
          if (kind == operation_kind::reduce_scatter_tensor)
            one.inputs.push_back(at::full({2 * n}, 7.f));
        }
        try {
          one.run(on);
          return 1;
        } catch (const collective_mismatch&) {
        }
        for (const auto& out : one.outputs)
          CHECK_OR_RETURN(at::equal(out, at::full_like(out, static_cast<float>(rank))), 2);
      }
    asked_operation(operation_kind::barrier, {}, {}).run(on);
    return 0;
  });
}

// No tensors: a barrier.
TEST(SharedBackend, WaitsForAllRanksWithoutTensors) {
  as_processes(2, [&](backend& on, int rank, forked_exchange& exchange) {
    asked_operation one(operation_kind::all_reduce, {}, {});
    one.what.dtype = at::kFloat;
    one.run(on);
    int status = rank;
    try {
      if (rank == 0) on.run(one.what, time_limit(20ms));
    } catch (const collective_timeout&) {
      status = 1;
    }
    exchange.wait_for_all();
    return status == 1 ? 0 : 1;
  });
}

// Rule 5: a rank is stopped somewhere inside of direct all_reduces, the other one's deadline passes
// and it fills its memory anew; when the rank goes on, no byte of that changes.
TEST(SharedBackend, IsNotWrittenIntoByARankThatWasStopped) {
  for (int round = 0; round < 6; ++round)
    as_processes(2, [&](backend& on, int rank, forked_exchange& exchange) {
      constexpr std::int64_t count = 2 << 20;
      auto a = at::zeros({count});
      std::array<std::byte, sizeof(pid_t)> mine;
      const auto me = getpid();
      std::memcpy(mine.data(), &me, sizeof me);
      pid_t other = 0;
      std::memcpy(&other, exchange.all_gather(mine)[1].data(), sizeof other);
      std::thread stopper;
      if (rank == 0)
        stopper = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(20'000 + 1'700 * round));
          kill(other, SIGSTOP);
        });
      int failures = 0;
      try {
        for (;;) {
          asked_operation one(operation_kind::all_reduce, {}, {a});
          one.what.outputs = one.outputs;
          on.run(one.what, time_limit(rank == 0 ? 80ms : 60'000ms));
        }
      } catch (const collective_timeout&) {
        failures = rank == 0 ? 0 : 1;
      } catch (const group_failed&) {
        failures = rank == 1 ? 0 : 1;
      }
      if (rank == 1) return failures;
      stopper.join();
      a.fill_(7);
      std::vector<at::Tensor> others;
      for (int i = 0; i < 3; ++i) others.push_back(at::full({count}, 7.f));
      others.push_back(a);
      kill(other, SIGCONT);
      std::this_thread::sleep_for(20ms);
      for (const auto& one : others)
        if (!at::equal(one, at::full({count}, 7.f))) ++failures;
      return failures;
    });
}

// Rules 5 and 6: nor is it given to anybody else while the rank has not left.
TEST(SharedBackend, KeepsMemoryFromRanksThatMayStillWrite) {
  as_processes(2, [&](backend& on, int rank, forked_exchange& exchange) {
    auto a = values(rank, 50'000);
    asked_operation one(operation_kind::all_reduce, {}, {a});
    one.what.outputs = one.outputs;
    if (rank == 1) {
      exchange.wait_for_all();
      // As if it had been stopped: it comes when rank 0 has given up.
      try {
        on.run(one.what, time_limit(60s));
        return 1;
      } catch (const group_failed&) {
      }
      exchange.wait_for_all();
      return 0;
    }
    const auto* before = a.const_data_ptr();
    try {
      on.run(one.what, time_limit(50ms));
      return 2;
    } catch (const collective_timeout&) {
    }
    CHECK_OR_RETURN(a.const_data_ptr() != before, 3);
    CHECK_OR_RETURN(at::equal(a, values(0, 50'000)), 4);
    // Nor does anybody else get it.
    std::vector<at::Tensor> others;
    for (int i = 0; i < 50; ++i) {
      others.push_back(at::full({50'000}, 7.f));
      CHECK_OR_RETURN(others.back().const_data_ptr() != before, 5);
    }
    exchange.wait_for_all();
    exchange.wait_for_all();
    return 0;
  });
}

// But when it has: it was aborted before it came to the operation, or its end of the group is gone.
TEST(SharedBackend, GivesMemoryBackWhenRanksThatRunNothingHaveLeft) {
  for (const bool aborts : {false, true})
    as_processes(2, [&](std::unique_ptr<backend>& on, int rank, forked_exchange& exchange) {
      if (rank == 1) {
        exchange.wait_for_all();
        if (aborts)
          on->abort(std::make_exception_ptr(peer_lost("worker 0 says so")));
        else
          on.reset();
        exchange.wait_for_all();
        return 0;
      }
      auto a = values(rank, 50'000);
      asked_operation one(operation_kind::all_reduce, {}, {a});
      one.what.outputs = one.outputs;
      const auto* const before = a.const_data_ptr();
      try {
        on->run(one.what, time_limit(20ms));
        return 1;
      } catch (const collective_timeout&) {
      }
      std::vector<at::Tensor> others;
      const auto is_free = [&] {
        for (int i = 0; i < 50; ++i) {
          others.push_back(at::full({50'000}, 7.f));
          if (others.back().const_data_ptr() == before) return true;
        }
        return false;
      };
      release_quarantined();
      CHECK_OR_RETURN(!is_free(), 2);
      exchange.wait_for_all();
      exchange.wait_for_all();
      release_quarantined();
      return is_free() ? 0 : 3;
    });
}

TEST(SharedBackend, ThrowsWhatItWasAbortedWith) {
  as_processes(2, [&](backend& on, int rank, forked_exchange&) {
    if (rank == 1) on.abort(std::make_exception_ptr(peer_lost("worker 7 is gone")));
    std::string text;
    try {
      asked_operation(operation_kind::barrier, {}, {}).run(on);
    } catch (const peer_lost& e) {
      text = rank == 1 ? e.what() : "";
    } catch (const group_failed& e) {
      text = rank == 0 ? e.what() : "";
    }
    return text.find("worker 7 is gone") != std::string::npos ? 0 : 1;
  });
}

// The segment that they share is of another size for each number of ranks.
TEST(SharedBackend, IsMadeForAnyNumberOfRanks) {
  for (const int ranks : {1, 5, 7, 8, 9, 15, 16, 17})
    as_processes(ranks, [ranks](backend& on, int rank, forked_exchange&) {
      auto x = at::full({3}, rank + 1.0f);
      asked_operation(operation_kind::all_reduce, {}, {x}).run(on);
      return at::equal(x, at::full({3}, ranks * (ranks + 1) / 2.0f)) ? 0 : 1;
    });
}

// It offers its memory, and is stopped before the others have got it.
TEST(SharedBackend, IsNotAwaitedFromAStoppedRankWhenTheGroupHasFailed) {
  struct stopping_exchange final : member_exchange {
    forked_exchange& between;
    const bool stops;
    int calls = 0;

    stopping_exchange(forked_exchange& of, bool me) : between(of), stops(me) {}
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
      if (++calls == 3) std::rethrow_exception(failure());
      auto out = between.all_gather(mine);
      if (calls == 2 && stops) raise(SIGSTOP);
      return out;
    }
    std::exception_ptr failure() const override {
      return std::make_exception_ptr(peer_lost("worker1 does not answer"));
    }
  };
  forked_exchange exchange(2);
  const auto rank_as = [&](int rank) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string why_not;
    transport::arena_options options;
    options.limit = std::size_t{64} << 20;
    if (!transport::install_arena(options, why_not)) return 1;
    exchange.become(rank);
    stopping_exchange mine(exchange, rank == 1);
    auto request = request_of(exchange, rank, 2);
    request.timeout = 10min;
    request.exchange = &mine;
    try {
      make_shared_backend(request, why_not);
    } catch (const peer_lost&) {
      return 0;
    }
    return 2;
  };
  const auto stopped = fork();
  if (stopped == 0) _exit(rank_as(1));
  EXPECT_EQ(troupe::test::in_child([&] { return rank_as(0); }), 0);
  kill(stopped, SIGKILL);
  waitpid(stopped, nullptr, 0);
}

TEST(SharedBackend, SaysOnAllRanksThatTheyShareNoHost) {
  forked_exchange exchange(1);
  struct two_hosts final : member_exchange {
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
      std::vector<std::byte> a(mine.begin(), mine.end()), b = a;
      b.insert(std::ranges::find(b, std::byte{'\n'}), std::byte{'x'});
      return {a, b};
    }
  } other;
  auto request = request_of(exchange, 0, 2);
  request.exchange = &other;
  std::string why_not;
  EXPECT_EQ(make_shared_backend(request, why_not), nullptr);
  EXPECT_EQ(why_not, "ranks 0 and 1 are on two hosts");
}

}  // namespace
}  // namespace troupe::groups
