// Outputs that become aliases of other ranks' memory: rules 8 and 9 of docs/collectives_shared.md.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/actors/groups/shared/backend_processes.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::groups {
namespace {

// Tensors have 16 KiB and more: smaller ones do not lie in the arena.
using test::as_processes;
using test::asked_operation;
using test::forked_exchange;
using test::values;

const std::string by_loans =
    "broadcast:lend>=0,all_gather:lend>=0,gather:lend>=0,scatter:lend>=0,all_to_all:lend>=0,"
    "all_reduce:shared>=0,all_gather_into_tensor:shared>=0";

bool is_own(const at::Tensor& tensor) {
  const auto& arena = *transport::installed_arena();
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return data >= arena.at(0) && data < arena.at(0) + arena.size();
}
std::uint64_t copies() { return copy_on_write::count().copies; }

// Rule 8: whoever writes does so for itself.
TEST(SharedLoans, BroadcastGivesAliasesUntilOneWrites) {
  for (const int ranks : {2, 3})
    as_processes(
        ranks,
        [&](backend& on, int rank, forked_exchange& all) {
          auto a = rank == 1 ? values(5, 10'000) : at::zeros({10'000});
          {
            const auto view = a.view({100, 100});
            asked_operation(operation_kind::broadcast, {}, {a}, 1).run(on);
            CHECK_OR_RETURN(is_own(a) == (rank == 1), 1);
            CHECK_OR_RETURN(at::equal(a, values(5, 10'000)), 2);
            CHECK_OR_RETURN(view.const_data_ptr() == a.const_data_ptr(), 3);
          }
          all.wait_for_all();
          a.fill_(rank);
          all.wait_for_all();
          CHECK_OR_RETURN(is_own(a) && at::equal(a, at::full({10'000}, rank, at::kFloat)), 4);
          // When all have given it back, the root's memory is its own again: it need not be copied.
          asked_operation(operation_kind::broadcast, {}, {a}, 1).run(on);
          if (rank != 1) a = at::Tensor();
          all.wait_for_all();
          const auto before = copies();
          if (rank == 1) a.fill_(3);
          return copies() == before ? 0 : 5;
        },
        by_loans);
}

TEST(SharedLoans, OfAMessageThatWasNotSentComesBack) {
  as_processes(
      2,
      [&](backend& on, int rank, forked_exchange&) {
        auto a = values(5, 10'000);
        const auto lent = on.lend(a, 1 - rank);
        CHECK_OR_RETURN(lent != 0, 1);
        on.take_back(lent);
        const auto before = copies();
        a.fill_(3);
        return copies() == before ? 0 : 2;
      },
      "send:lend>=0");
}

TEST(SharedLoans, AreWrittenByOneRankWhileOthersRead) {
  as_processes(
      3,
      [&](backend& on, int rank, forked_exchange& all) {
        for (int round = 0; round < 20; ++round) {
          const int root = round % 3;
          auto a = rank == root ? values(round, 5'000) : at::empty({5'000});
          asked_operation(operation_kind::broadcast, {}, {a}, root).run(on);
          if (rank == (root + round) % 3) a.fill_(-1);
          all.wait_for_all();
          if (rank != (root + round) % 3)
            CHECK_OR_RETURN(at::equal(a, values(round, 5'000)), 1 + round);
          all.wait_for_all();
        }
        return 0;
      },
      by_loans);
}

// Lists of uneven sizes, empty ones too, whose own part is an alias of this rank's input.
TEST(SharedLoans, ListsAreNotMoved) {
  constexpr int ranks = 3;
  as_processes(
      ranks,
      [&](backend& on, int rank, forked_exchange&) {
        const auto count = [](int p) { return p == 2 ? std::int64_t{0} : 5'000 + 100 * p; };
        std::vector<at::Tensor> outputs;
        for (int p = 0; p < ranks; ++p) outputs.push_back(at::zeros({count(p)}));
        auto input = values(rank, count(rank));
        asked_operation(operation_kind::all_gather, {input}, outputs).run(on);
        input.fill_(-1);
        for (int p = 0; p < ranks; ++p) {
          const auto& one = outputs[static_cast<std::size_t>(p)];
          CHECK_OR_RETURN(at::equal(one, values(p, count(p))), 1);
          CHECK_OR_RETURN(p == 2 || is_own(one) == (p == rank), 2);
        }
        // A part of a tensor can be lent, and what one has borrowed.
        std::vector<at::Tensor> inputs;
        const auto whole = values(rank, 3 * 2'000);
        for (int p = 0; p < ranks; ++p) {
          inputs.push_back(whole.narrow(0, 2'000 * p, 2'000));
          outputs[static_cast<std::size_t>(p)] = at::empty({2'000});
        }
        asked_operation(operation_kind::all_to_all, inputs, outputs).run(on);
        for (int p = 0; p < ranks; ++p)
          CHECK_OR_RETURN(at::equal(outputs[static_cast<std::size_t>(p)],
                                    values(p, 3 * 2'000).narrow(0, 2'000 * rank, 2'000)),
                          3);
        const auto borrowed = outputs[static_cast<std::size_t>((rank + 1) % ranks)];
        std::vector<at::Tensor> gathered;
        for (int p = 0; p < ranks && rank == 1; ++p) gathered.push_back(at::empty({2'000}));
        asked_operation(operation_kind::gather, {borrowed}, gathered, 1).run(on);
        outputs.clear();
        for (int p = 0; p < ranks && rank == 1; ++p)
          CHECK_OR_RETURN(at::equal(gathered[static_cast<std::size_t>(p)],
                                    values((p + 1) % ranks, 3 * 2'000).narrow(0, 2'000 * p, 2'000)),
                          4);
        auto scattered = at::empty({2'000});
        asked_operation(operation_kind::scatter, gathered, {scattered}, 1).run(on);
        CHECK_OR_RETURN(at::equal(scattered, borrowed), 5);
        return 0;
      },
      by_loans);
}

// A part of a storage, and memory of the program, get what they would get otherwise.
TEST(SharedLoans, AreRefusedWhereAnOutputIsNoWholeStorage) {
  as_processes(
      2,
      [&](backend& on, int rank, forked_exchange&) {
        auto buffer = at::zeros({12'000});
        std::vector<float> outside(6'000);
        const at::Tensor outputs[] = {buffer.narrow(0, 2'000, 6'000),
                                      at::from_blob(outside.data(), {6'000})};
        for (const auto& odd : outputs) {
          auto a = rank == 0 ? values(7, 6'000) : odd;
          asked_operation(operation_kind::broadcast, {}, {a}).run(on);
          CHECK_OR_RETURN(at::equal(odd, rank == 1 ? values(7, 6'000) : at::zeros({6'000})), 1);
          a.fill_(rank);
          asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
          CHECK_OR_RETURN(at::equal(a, at::full({6'000}, 1.f)), 2);
        }
        CHECK_OR_RETURN(rank == 0 || (outside[3'999] == 1 && buffer[2'000].item<float>() == 1 &&
                                      buffer[1'999].item<float>() == 0),
                        3);
        return 0;
      },
      by_loans);
}

// Rule 9, whether tensors are rewritten in between or not, and by whom.
TEST(SharedLoans, OneResultIsShared) {
  for (const int ranks : {2, 3})
    as_processes(
        ranks,
        [&](backend& on, int rank, forked_exchange& all) {
          const auto exact = [](int of) { return values(of, 9'000).to(at::kDouble); };
          auto a = exact(rank);
          const auto before = a._lazy_clone();
          auto expected = exact(0);
          for (int p = 1; p < ranks; ++p) expected.add_(exact(p));
          asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
          CHECK_OR_RETURN(at::equal(a, expected) && is_own(a) == (rank == 0), 1);
          CHECK_OR_RETURN(at::equal(before, exact(rank)), 2);
          for (unsigned round = 0; round < 8; ++round) {
            // Some ranks rewrite theirs, the owner of the result among them.
            if (round >> rank & 1) a.add_(1);
            all.wait_for_all();
            auto next = expected.mul(ranks);
            for (int p = 0; p < ranks; ++p)
              if (round >> p & 1) next.add_(1);
            expected = next;
            asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
            CHECK_OR_RETURN(at::equal(a, expected), 3);
          }
          auto gathered = at::zeros({ranks, 3'000});
          for (int round = 0; round < 3; ++round) {
            const auto mine = round == 1 ? gathered[rank] : values(rank + round, 3'000);
            if (round == 1) mine.copy_(values(rank + round, 3'000));
            asked_operation(operation_kind::all_gather_into_tensor, {mine}, {gathered}).run(on);
            CHECK_OR_RETURN(is_own(gathered) == (rank == 0), 4);
            for (int p = 0; p < ranks; ++p)
              CHECK_OR_RETURN(at::equal(gathered[p], values(p + round, 3'000)), 5);
          }
          return 0;
        },
        by_loans);
}

// Ranks that disagree borrow nothing, and the lender's memory is its own again.
TEST(SharedLoans, ComeBackWhenRanksDisagree) {
  as_processes(
      2,
      [&](backend& on, int rank, forked_exchange&) {
        auto a = values(rank, rank == 0 ? 9'000 : 8'000);
        const std::vector<at::Tensor> list = {at::zeros({9'000}), at::zeros({9'000})};
        const auto refused = [&](asked_operation&& one) {
          try {
            one.run(on);
          } catch (const collective_mismatch&) {
            return true;
          }
          return false;
        };
        CHECK_OR_RETURN(refused({operation_kind::broadcast, {}, {a}}), 1);
        CHECK_OR_RETURN(refused({operation_kind::all_reduce, {}, {a}}), 2);
        CHECK_OR_RETURN(refused({operation_kind::all_gather, {a}, list}), 3);
        CHECK_OR_RETURN(at::equal(list[1], at::zeros({9'000})), 4);
        const auto before = copies();
        a.fill_(1);
        CHECK_OR_RETURN(copies() == before, 5);
        asked_operation(operation_kind::all_reduce, {}, {list[0]}).run(on);
        return 0;
      },
      by_loans);
}

// Memory is lent for as long as somebody has it, whatever becomes of the group and of the lender.
TEST(SharedLoans, OutliveTheirGroup) {
  as_processes(
      2,
      [&](std::unique_ptr<backend>& on, int rank, forked_exchange& all) {
        auto a = rank == 0 ? values(3, 20'000) : at::zeros({20'000});
        asked_operation(operation_kind::broadcast, {}, {a}).run(*on);
        all.wait_for_all();
        on.reset();
        if (rank == 0) {
          a.fill_(-1);
          // Memory that was free would be used again.
          for (int i = 0; i < 100; ++i) at::full({20'000}, -2.f);
        }
        all.wait_for_all();
        return rank == 0 || at::equal(a, values(3, 20'000)) ? 0 : 1;
      },
      by_loans);
}

TEST(SharedLoans, MoveWhatIsTooManyToLend) {
  as_processes(
      2,
      [&](backend& on, int rank, forked_exchange&) {
        std::vector<at::Tensor> held;
        for (int i = 0; i < 300; ++i) {
          held.push_back(rank == 0 ? values(i, 5'000) : at::zeros({5'000}));
          asked_operation(operation_kind::broadcast, {}, {held.back()}).run(on);
        }
        for (int i = 0; i < 300; ++i) {
          const auto& one = held[static_cast<std::size_t>(i)];
          CHECK_OR_RETURN(at::equal(one, values(i, 5'000)), 1);
          CHECK_OR_RETURN(rank == 0 || is_own(one) == (i >= 255), 2);
        }
        return 0;
      },
      by_loans);
}

}  // namespace
}  // namespace troupe::groups
