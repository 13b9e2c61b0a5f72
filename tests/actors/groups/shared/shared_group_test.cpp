// Every operation against a plain reference, by every way. Rules: docs/collectives_shared.md.
#include "troupe/actors/groups/shared/shared_group.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/actors/groups/shared/shared_ranks.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"

namespace troupe::groups {
namespace {

using test::asked_for;
using test::shared_ranks;
using namespace std::chrono_literals;

// What `rank` contributes to an operation: the same on whichever rank it is computed. Small
// numbers, of every dtype.
std::vector<std::byte> contribution(std::uint64_t seed, int rank, int part, c10::ScalarType dtype,
                                    std::int64_t count) {
  random_source random(splitmix64(seed * 4099 + static_cast<std::uint64_t>(rank * 67 + part)));
  std::vector<std::byte> out(static_cast<std::size_t>(count) * c10::elementSize(dtype));
  const auto put = [&](std::int64_t i, auto value) {
    std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<int>(random.next() % 17) - 8;
    switch (dtype) {
      case c10::kFloat: put(i, static_cast<float>(drawn) / 3); break;
      case c10::kDouble: put(i, static_cast<double>(drawn) / 3); break;
      case c10::kBFloat16: put(i, c10::BFloat16(static_cast<float>(drawn) / 3)); break;
      case c10::kLong: put(i, static_cast<std::int64_t>(drawn)); break;
      case c10::kBool: put(i, drawn > 0); break;
      case c10::kComplexFloat:
        put(i, c10::complex<float>(static_cast<float>(drawn), static_cast<float>(drawn) / 7));
        break;
      default: put(i, static_cast<std::uint8_t>(drawn)); break;
    }
  }
  return out;
}

// Where a rank's tensors lie.
enum class lies { in_memory, elsewhere, mixed };

// The tensors of one rank during one operation.
class rank_tensors {
public:
  rank_tensors(std::byte* memory, bool inside) : memory_(memory), inside_(inside) {}

  tensor_view make(c10::ScalarType dtype, std::int64_t count,
                   const std::vector<std::byte>* contents = nullptr) {
    const auto bytes = static_cast<std::size_t>(count) * c10::elementSize(dtype);
    tensor_view out{nullptr, dtype, count};
    if (inside_) {
      out.data = memory_ + used_;
      used_ += (bytes + 127) / 64 * 64;  // and a gap
      EXPECT_LE(used_, shared_ranks::memory_of_rank);
    } else {
      own_.push_back(std::make_unique<std::byte[]>(bytes + 1));
      out.data = own_.back().get();
    }
    if (bytes == 0) return out;
    if (contents)
      std::memcpy(out.data, contents->data(), bytes);
    else
      std::memset(out.data, 0x5a, bytes);
    return out;
  }

private:
  std::byte* const memory_;
  const bool inside_;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> own_;
};

struct collective_case {
  operation_kind kind;
  c10::ScalarType dtype;
  std::int64_t count;
  lies where;
  reduce_op reduction = reduce_op::sum;
  std::uint64_t sequence = 0;
};

std::string name_of(const collective_case& one, int rank) {
  return std::string(to_string(one.kind)) + " " + to_string(one.reduction) + " of " +
         std::to_string(one.count) + " " + c10::toString(one.dtype) + ", place " +
         std::to_string(static_cast<int>(one.where)) + ", on rank " + std::to_string(rank);
}

bool holds(const tensor_view& tensor, const std::vector<std::byte>& wanted) {
  return tensor.bytes() == wanted.size() &&
         (wanted.empty() || std::memcmp(tensor.data, wanted.data(), wanted.size()) == 0);
}

// Elements that p has for q: uneven where an operation allows it.
std::int64_t part_count(const collective_case& one, int p, int q) {
  return one.kind == operation_kind::all_to_all       ? one.count + (p * 3 + q * 5) % 7
         : one.kind == operation_kind::all_gather     ? one.count + p % 3
         : one.kind == operation_kind::reduce_scatter ? one.count + q % 3
                                                      : one.count;
}

std::vector<std::byte> combined(const collective_case& one, int ranks, int part,
                                std::int64_t count) {
  std::vector<std::vector<std::byte>> in;
  std::vector<const std::byte*> sources;
  std::vector<double> factors;
  for (int p = 0; p < ranks; ++p) {
    in.push_back(contribution(one.sequence, p, part, one.dtype, count));
    factors.push_back(1 + p);
  }
  for (const auto& x : in) sources.push_back(x.data());
  std::vector<std::byte> out(static_cast<std::size_t>(count) * c10::elementSize(one.dtype));
  auto* to = out.data();
  reduction(to_string(one.kind), one.reduction, one.dtype)
      .run(sources, {&to, 1}, count, store_mode::cached, factors.data());
  return out;
}

void check_collective(shared_group& group, std::byte* memory, const collective_case& one) {
  const int n = group.size(), me = group.rank();
  const int root = static_cast<int>(one.sequence % static_cast<std::uint64_t>(n));
  const bool inside = one.where == lies::in_memory ||
                      (one.where == lies::mixed && me != static_cast<int>(one.sequence / 2) % n);
  rank_tensors tensors(memory, inside);
  const time_limit limit(60s);
  const bool moves_parts = !reduces(one.kind) && one.kind != operation_kind::broadcast;
  auto what = asked_for(one.kind, one.sequence, one.dtype,
                        moves_parts || one.kind == operation_kind::reduce_scatter ? 0 : one.count,
                        root, one.reduction);
  const auto mine = contribution(one.sequence, me, 0, one.dtype, one.count);
  SCOPED_TRACE(name_of(one, me));
  switch (one.kind) {
    case operation_kind::barrier: group.barrier(what, limit); break;
    case operation_kind::broadcast: {
      auto x = tensors.make(one.dtype, one.count, me == root ? &mine : nullptr);
      group.broadcast(what, x, limit);
      EXPECT_TRUE(holds(x, contribution(one.sequence, root, 0, one.dtype, one.count)));
      break;
    }
    case operation_kind::all_reduce: {
      auto x = tensors.make(one.dtype, one.count, &mine);
      group.all_reduce(what, x, 1 + me, limit);
      EXPECT_TRUE(holds(x, combined(one, n, 0, one.count)));
      break;
    }
    case operation_kind::reduce: {
      auto x = tensors.make(one.dtype, one.count, &mine);
      tensor_view y = x;
      if (one.sequence % 3 != 0) y = tensors.make(one.dtype, me == root ? one.count : 0);
      group.reduce(what, x, y, 1 + me, limit);
      EXPECT_TRUE(me == root ? holds(y, combined(one, n, 0, one.count)) : holds(x, mine));
      break;
    }
    case operation_kind::reduce_scatter: {
      std::vector<tensor_view> in;
      for (int q = 0; q < n; ++q) {
        const auto part = contribution(one.sequence, me, q, one.dtype, part_count(one, me, q));
        in.push_back(tensors.make(one.dtype, part_count(one, me, q), &part));
      }
      auto x = one.sequence % 3 == 0 ? in[static_cast<std::size_t>(me)]
                                     : tensors.make(one.dtype, part_count(one, 0, me));
      group.reduce_scatter(what, in, x, 1 + me, limit);
      EXPECT_TRUE(holds(x, combined(one, n, me, part_count(one, 0, me))));
      break;
    }
    default: {
      std::vector<tensor_view> in, out;
      const bool from_root = one.kind == operation_kind::scatter;
      const bool to_root = one.kind == operation_kind::gather;
      const bool many = from_root || one.kind == operation_kind::all_to_all;
      for (int q = 0; q < (many ? n : 1); ++q) {
        if (from_root && me != root) break;
        const auto part = contribution(one.sequence, me, q, one.dtype, part_count(one, me, q));
        in.push_back(tensors.make(one.dtype, part_count(one, me, q), &part));
      }
      for (int p = 0; p < n; ++p) {
        if ((to_root && me != root) || (from_root && p != 0)) break;
        out.push_back(tensors.make(one.dtype, part_count(one, p, me)));
      }
      group.move(what, in, out, limit);
      for (std::size_t p = 0; p < out.size(); ++p) {
        const int from = from_root ? root : static_cast<int>(p);
        EXPECT_TRUE(holds(out[p], contribution(one.sequence, from, many ? me : 0, one.dtype,
                                               part_count(one, from, me))));
      }
      break;
    }
  }
}

constexpr operation_kind all_kinds[] = {
    operation_kind::barrier, operation_kind::broadcast,      operation_kind::all_reduce,
    operation_kind::reduce,  operation_kind::all_gather,     operation_kind::gather,
    operation_kind::scatter, operation_kind::reduce_scatter, operation_kind::all_to_all};

// All of them one after the other, as every rank.
void run_cases(int ranks, const std::vector<collective_case>& cases, const std::string& rules,
               std::size_t area) {
  shared_ranks shared(ranks, area, rules);
  std::vector<shared_setup> setups;
  for (int p = 0; p < ranks; ++p) setups.push_back(shared.setup_of(p));
  std::vector<std::thread> threads;
  for (int p = 0; p < ranks; ++p)
    threads.emplace_back([&, p] {
      auto& setup = setups[static_cast<std::size_t>(p)];
      auto* memory = shared_ranks::memory_of(setup, p);
      shared_group group(std::move(setup));
      for (auto one : cases) {
        try {
          check_collective(group, memory, one);
        } catch (const std::exception& e) {
          ADD_FAILURE() << name_of(one, p) << ": " << e.what();
          return;
        }
      }
    });
  for (auto& t : threads) t.join();
}

std::vector<collective_case> cases_of(std::initializer_list<c10::ScalarType> dtypes,
                                      std::initializer_list<std::int64_t> counts) {
  std::vector<collective_case> out;
  for (const auto kind : all_kinds)
    for (const auto dtype : dtypes)
      for (const auto count : counts)
        for (const auto where : {lies::in_memory, lies::elsewhere, lies::mixed}) {
          out.push_back({kind, dtype, count, where});
          out.back().sequence = out.size();
        }
  return out;
}

// In areas of 4 KiB, whatever is larger takes many rounds.
TEST(SharedGroup, CarriesOutEveryOperationOnOneToEightRanks) {
  const auto cases =
      cases_of({c10::kFloat, c10::kBFloat16, c10::kBool}, {0, 1, 2, 3, 65, 511, 1025, 4097, 9000});
  for (int ranks = 1; ranks <= 8; ++ranks) run_cases(ranks, cases, "", 4096);
}

// Every way for every size: what the table would not choose.
TEST(SharedGroup, CarriesOutEveryOperationByEveryWay) {
  const auto cases = cases_of({c10::kLong, c10::kComplexFloat}, {0, 1, 7, 300, 2048});
  for (const char* takes : {"box", "direct", "staged"}) {
    std::string rules;
    for (std::size_t kind = 0; kind < operation_kinds; ++kind)
      for (const char* from : {"0", "4097", "8193", "16385"})
        rules += std::string(rules.empty() ? "" : ",") +
                 to_string(static_cast<operation_kind>(kind)) + ":" + takes + ">=" + from;
    for (const int ranks : {2, 3, 5}) run_cases(ranks, cases, rules, 16384);
  }
}

// Tensors that no rank has mapped are read out of the process that has them; others as ever.
TEST(SharedGroup, ReadsTensorsThatLieElsewhereByTheKernel) {
  const auto cases = cases_of({c10::kFloat, c10::kByte}, {0, 1, 300, 2048, 9000, 12'001});
  for (const int ranks : {1, 2, 3, 8}) run_cases(ranks, cases, "cma=0,streaming=0", 16384);
  for (const int ranks : {2, 3}) run_cases(ranks, cases, "cma=4096", 16384);
}

TEST(SharedGroup, CombinesByEveryReductionThatADtypeHas) {
  std::vector<collective_case> cases;
  for (const auto kind :
       {operation_kind::all_reduce, operation_kind::reduce, operation_kind::reduce_scatter})
    for (const auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kLong, c10::kByte,
                             c10::kBool, c10::kComplexFloat})
      for (int op = 0; op < reduce_ops; ++op)
        for (const std::int64_t count : {1, 100, 3000})
          for (const auto where : {lies::in_memory, lies::elsewhere}) {
            if (!unsupported_reduction("x", static_cast<reduce_op>(op), dtype).empty()) continue;
            cases.push_back({kind, dtype, count, where, static_cast<reduce_op>(op)});
            cases.back().sequence = cases.size();
          }
  for (const int ranks : {2, 4}) run_cases(ranks, cases, "", 8192);
}

}  // namespace
}  // namespace troupe::groups
