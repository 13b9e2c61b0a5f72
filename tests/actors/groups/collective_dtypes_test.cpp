// What each collective does with each dtype: docs/collective_dtypes.md is written by this test, as
// TROUPE_TEST_PROGRAM_DIR/collective_dtypes.md. Copy it there when it has changed.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/actors/groups/dtype_elements.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"

namespace troupe::test {
namespace {

constexpr int ranks = 3;
using list = std::vector<at::Tensor>;

// Elements of one rank. libtorch fills no quantized ones with random values.
at::Tensor mine_of(at::ScalarType dtype, int rank, std::int64_t count) {
  if (c10::isQIntType(dtype))
    return at::_empty_affine_quantized({count}, at::TensorOptions(dtype), 1.0, 0);
  return drawn_row(dtype, count, static_cast<std::uint64_t>(rank + 1));
}

struct column {
  const char* name;
  // Is the result of this rank right? Throws what the operation throws.
  std::function<bool(const process_group&, at::ScalarType, std::int64_t)> right;
};

list of_all(at::ScalarType dtype, std::int64_t count) {
  list out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(mine_of(dtype, rank, count));
  return out;
}

list blank(at::ScalarType dtype, std::int64_t count) {
  list out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(at::empty_like(mine_of(dtype, 0, count)));
  return out;
}

bool all_alike(const list& a, const list& b) {
  bool out = a.size() == b.size();
  for (std::size_t i = 0; out && i < a.size(); ++i) out = alike(a[i], b[i]);
  return out;
}

at::Tensor part(const at::Tensor& row, int of) {
  const auto count = row.numel() / ranks;
  return row.slice(0, of * count, (of + 1) * count);
}

std::vector<column> moving() {
  return {
      {"broadcast",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto x = mine_of(dtype, group.rank(), count);
         broadcast(group, x, 1);
         return alike(x, mine_of(dtype, 1, count));
       }},
      {"all_gather",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto out = blank(dtype, count);
         all_gather(group, out, mine_of(dtype, group.rank(), count));
         return all_alike(out, of_all(dtype, count));
       }},
      {"all_gather_into_tensor",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto out = at::empty_like(mine_of(dtype, 0, count * ranks));
         all_gather_into_tensor(group, out, mine_of(dtype, group.rank(), count));
         return all_alike({part(out, 0), part(out, 1), part(out, 2)}, of_all(dtype, count));
       }},
      {"gather",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto out = group.rank() == 2 ? blank(dtype, count) : list();
         gather(group, mine_of(dtype, group.rank(), count), out, 2);
         return group.rank() != 2 || all_alike(out, of_all(dtype, count));
       }},
      {"scatter",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto out = at::empty_like(mine_of(dtype, 0, count));
         scatter(group, out, group.rank() == 0 ? of_all(dtype, count) : list(), 0);
         return alike(out, mine_of(dtype, group.rank(), count));
       }},
      {"all_to_all",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto out = blank(dtype, count);
         all_to_all(group, out, list(ranks, mine_of(dtype, group.rank(), count)));
         return all_alike(out, of_all(dtype, count));
       }},
      {"all_to_all_single",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const auto in = mine_of(dtype, group.rank(), count * ranks), out = at::empty_like(in);
         all_to_all_single(group, out, in);
         bool right = true;
         for (int from = 0; from < ranks; ++from)
           right = right &&
                   alike(part(out, from), part(mine_of(dtype, from, count * ranks), group.rank()));
         return right;
       }},
      {"send",
       [](const process_group& group, at::ScalarType dtype, std::int64_t count) {
         const int next = (group.rank() + 1) % ranks, before = (group.rank() + 2) % ranks;
         const auto sent = isend(group, mine_of(dtype, group.rank(), count), next);
         const auto out = at::empty_like(mine_of(dtype, 0, count));
         recv(group, out, before);
         sent.wait();
         return alike(out, mine_of(dtype, before, count));
       }},
  };
}

const std::vector<double> factors{0.5, 2, -1};

at::Tensor reduced_row(at::ScalarType dtype, std::int64_t count, reduce_op op) {
  return plainly_reduced(of_all(dtype, count), op, factors);
}

reduce_by by(reduce_op op, int rank) {
  return op == reduce_op::premul_sum ? premul_sum(factors[static_cast<std::size_t>(rank)])
                                     : reduce_by(op);
}

// The four that combine, which take the same.
bool reduces_right(const process_group& group, at::ScalarType dtype, std::int64_t count,
                   reduce_op op, int which) {
  const auto how = by(op, group.rank());
  const auto x = mine_of(dtype, group.rank(), which < 2 ? count : count * ranks);
  const auto before = mine_of(dtype, group.rank(), x.numel());
  const auto out = at::empty_like(part(x, 0));
  switch (which) {
    case 0: all_reduce(group, x, how); return alike(x, reduced_row(dtype, count, op));
    case 1:
      reduce(group, x, 1, how);
      return alike(x, group.rank() == 1 ? reduced_row(dtype, count, op) : before);
    case 2: reduce_scatter_tensor(group, out, x, how); break;
    default: reduce_scatter(group, out, {part(x, 0), part(x, 1), part(x, 2)}, how); break;
  }
  return alike(out, part(reduced_row(dtype, count * ranks, op), group.rank()));
}
constexpr const char* reducing[] = {"all_reduce", "reduce", "reduce_scatter_tensor",
                                    "reduce_scatter"};

bool sparse_right(const process_group& group, at::ScalarType dtype) {
  // Two elements at places of their own, one at a place that all have.
  const auto indices = at::zeros({1, 3}, at::kLong);
  indices[0][1] = 1 + 2 * group.rank();
  indices[0][2] = 2 + 2 * group.rank();
  const auto x = at::sparse_coo_tensor(indices, mine_of(dtype, group.rank(), 3), {8});
  all_reduce(group, x);
  if (x._nnz() != 7) return false;
  auto sum = reduced_row(dtype, 3, reduce_op::sum).slice(0, 0, 1);
  bool right = alike(x._values().slice(0, 0, 1), sum);
  for (int rank = 0; rank < ranks; ++rank)
    right = right && alike(x._values().slice(0, 1 + 2 * rank, 3 + 2 * rank),
                           mine_of(dtype, rank, 3).slice(0, 1, 3));
  return right;
}

// "yes"; or the error, in which names stand for the operation's and the dtype's.
std::string outcome(const char* operation, at::ScalarType dtype,
                    const std::function<bool()>& right) {
  std::string text;
  try {
    return right() ? "yes" : "WRONG";
  } catch (const invalid_argument& e) {
    text = e.fault().text;
  }
  const auto put = [&](const std::string& what, const char* instead) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at))
      text.replace(at, what.size(), instead);
  };
  put(c10::toString(dtype), "DTYPE");
  put(operation, "OPERATION");
  for (int op = 0; op < reduce_ops; ++op) {
    const auto name = groups::reduction_name(reduce_op(op));
    put("ReduceOp." + name + " ", "REDUCTION ");
    put("support " + name + " on", "support REDUCTION on");
  }
  return text;
}

// What one rank has seen: rows of cells.
struct tables {
  std::map<std::string, std::vector<std::string>> moved, reduced, sparse;

  friend bool operator==(const tables&, const tables&) = default;
};

tables seen_on(const process_group& group) {
  tables out;
  const std::int64_t counts[] = {3, 5'001};  // with the entry, and beyond
  auto all = numeric_dtypes();
  all.insert(all.end(), opaque_dtypes().begin(), opaque_dtypes().end());
  for (const auto dtype : {at::kQInt8, at::kQUInt8, at::kQInt32}) all.push_back(dtype);
  for (const auto dtype : all) {
    const std::string name = c10::toString(dtype);
    for (const auto& one : moving())
      out.moved[name].push_back(outcome(one.name, dtype, [&] {
        return one.right(group, dtype, counts[0]) && one.right(group, dtype, counts[1]);
      }));
    for (int op = 0; op < reduce_ops; ++op) {
      std::vector<std::string> of_each;
      for (int which = 0; which < 4; ++which)
        of_each.push_back(outcome(reducing[which], dtype, [&] {
          bool right = true;
          for (const auto count : counts)
            if (which == 0 || count == counts[0])
              right = reduces_right(group, dtype, count, reduce_op(op), which) && right;
          return right;
        }));
      for (const auto& one : of_each) EXPECT_EQ(one, of_each[0]) << name << ", reduction " << op;
      out.reduced[name].push_back(of_each[0]);
    }
  }
  for (const auto dtype : numeric_dtypes())
    out.sparse[c10::toString(dtype)].push_back(
        outcome("all_reduce", dtype, [&] { return sparse_right(group, dtype); }));
  return out;
}

// A table whose cells refer to `errors` by their places.
std::string table_of(const std::string& head, int columns,
                     const std::map<std::string, std::vector<std::string>>& rows,
                     std::vector<std::string>& errors) {
  std::string out = head + "\n| ---";
  for (int i = 0; i < columns; ++i) out += " | ---";
  out += " |\n";
  for (const auto& [dtype, cells] : rows) {
    out += "| " + dtype;
    for (const auto& cell : cells) {
      if (cell == "yes" || cell == "WRONG") {
        out += " | " + cell;
        continue;
      }
      auto at = std::ranges::find(errors, cell);
      if (at == errors.end()) at = errors.insert(errors.end(), cell);
      out += fmt::format(" | error {}", at - errors.begin() + 1);
    }
    out += " |\n";
  }
  return out;
}

std::string page_of(const tables& what) {
  std::vector<std::string> errors;
  std::string out =
      "# What each collective does with each dtype\n\n"
      "`collective_dtypes_test` writes this page by calling every operation with every dtype and\n"
      "comparing the results with those of plain loops, in shared memory and over the network,\n"
      "which are alike. `make test` fails when it differs; the test says where it has written the\n"
      "new one.\n\n## Moved\n\n";
  std::string head = "| dtype";
  for (const auto& one : moving()) head += fmt::format(" | {}", one.name);
  out += table_of(head + " |", static_cast<int>(moving().size()), what.moved, errors);
  out +=
      "\n## Combined\n\nBy `all_reduce`, `reduce`, `reduce_scatter` and `reduce_scatter_tensor` "
      "alike.\n\n";
  head = "| dtype";
  for (int op = 0; op < reduce_ops; ++op)
    head += fmt::format(" | {}", groups::to_string(reduce_op(op)));
  out += table_of(head + " |", reduce_ops, what.reduced, errors);
  out += "\n## Sums of sparse tensors\n\nBy `all_reduce`.\n\n";
  out += table_of("| dtype | sum |", 1, what.sparse, errors);
  out +=
      "\n## Errors\n\nAll are `invalid_argument`, thrown on each rank before anything is sent.\n\n"
      "| error | text |\n| --- | --- |\n";
  for (std::size_t i = 0; i < errors.size(); ++i)
    out += fmt::format("| {} | {} |\n", i + 1, errors[i]);
  return out;
}

TEST(collective_dtypes, are_those_of_the_documentation) {
  std::vector<tables> seen;
  for (const char* backend : {"cpu:network", "cpu:troupe"}) {
    local_group all(ranks, {.backend = backend});
    std::vector<tables> of_rank(ranks);
    all.run([&](const process_group& group, int rank) {
      of_rank[static_cast<std::size_t>(rank)] = seen_on(group);
    });
    for (const auto& one : of_rank) EXPECT_EQ(one, of_rank[0]) << backend;
    seen.push_back(of_rank[0]);
  }
  EXPECT_EQ(seen[0], seen[1]) << "the backends differ";
  const auto page = page_of(seen[0]);
  EXPECT_EQ(page.find("WRONG"), std::string::npos);
  const std::string made = TROUPE_TEST_PROGRAM_DIR "/collective_dtypes.md";
  std::ofstream(made) << page;
  std::ostringstream documented;
  documented << std::ifstream(TROUPE_TEST_SOURCE_DIR "/../../docs/collective_dtypes.md").rdbuf();
  EXPECT_EQ(page, documented.str()) << "copy " << made << " to docs/ if that is right";
}

}  // namespace
}  // namespace troupe::test
