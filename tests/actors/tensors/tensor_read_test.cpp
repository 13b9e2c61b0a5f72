// Parts of tensors that other nodes own, read and written.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

namespace {

at::Tensor table(std::int64_t rows) { return at::arange(rows * 10).reshape({rows, 10}); }
at::Tensor nothing() { return {}; }
at::Tensor fails() { throw std::runtime_error("no table"); }

class tensor_reads : public on_networks {};
TROUPE_ON_NETWORKS(tensor_reads);

TEST_P(tensor_reads, give_rows_and_columns) {
  auto nodes = start({"a", "b"});
  {
    const auto there = nodes[0].remote<&table>("b", 100);
    const auto whole = table(100);
    EXPECT_TRUE(there.read().equal(whole));
    EXPECT_TRUE(there.read(slice{3, 6}).equal(whole.slice(0, 3, 6)));
    EXPECT_TRUE(there.read(slice{}, slice{-2}).equal(whole.slice(1, 8, 10)));
    EXPECT_TRUE(there.read(slice{0, 100, 30}, slice{1, 4}, timeout(time_limit))
                    .equal(whole.slice(0, 0, 100, 30).slice(1, 1, 4)));
    EXPECT_EQ(there.read(slice{50, 40}).size(0), 0);
    auto later = there.read_async(slice{1, 2});
    EXPECT_TRUE(later.get().equal(whole.slice(0, 1, 2)));
    EXPECT_EQ(there.read(slice{3, 6}).storage().nbytes(), 3 * 10 * sizeof(std::int64_t));
    EXPECT_THROW(there.read(slice{}, slice{}, slice{}), error);
    EXPECT_THROW(there.read(slice{0, 1, 0}), error);
    // Its owner reads it in the same way.
    const auto here = nodes[0].make_rref(table(10));
    EXPECT_TRUE(here.read(slice{2, 4}).equal(table(10).slice(0, 2, 4)));
    EXPECT_TRUE(here.read_async(slice{2, 4}).get().equal(table(10).slice(0, 2, 4)));
  }
  shut_down(nodes);
}

TEST_P(tensor_reads, and_writes_go_straight_into_place) {
  auto nodes = start({"a", "b"});
  {
    const auto there = nodes[0].remote<&table>("b", 10);
    auto rows = at::zeros({2, 10}, at::kLong);
    there.read_into(rows, slice{4, 6});
    EXPECT_TRUE(rows.equal(table(10).slice(0, 4, 6)));
    auto column = at::zeros({10, 2}, at::kLong);
    there.read_into(column.slice(1, 1, 2), slice{}, slice{7, 8});
    EXPECT_TRUE(column.slice(1, 1, 2).equal(table(10).slice(1, 7, 8)));
    EXPECT_TRUE(column.slice(1, 0, 1).equal(at::zeros({10, 1}, at::kLong)));
    there.write_from(rows.neg(), slice{0, 2});
    there.write_from(at::full({10, 1}, 5, at::kLong), slice{}, slice{9});
    auto wanted = table(10);
    wanted.slice(0, 0, 2).copy_(rows.neg());
    wanted.slice(1, 9, 10).fill_(5);
    EXPECT_TRUE(there.to_here().equal(wanted));
    // The sizes and the dtype must be those of the part.
    EXPECT_THROW(there.read_into(rows, slice{4, 7}), invalid_argument);
    EXPECT_THROW(there.write_from(rows, slice{4, 7}), error);
    EXPECT_THROW(there.write_from(at::zeros({2, 10}), slice{0, 2}), error);
    EXPECT_TRUE(there.to_here().equal(wanted));
    const auto here = nodes[0].make_rref(table(10));
    here.write_from(rows.neg(), slice{0, 2});
    EXPECT_TRUE(here.local_value().slice(0, 0, 2).equal(rows.neg()));
  }
  shut_down(nodes);
}

TEST_P(tensor_reads, see_the_version_before_during_an_update) {
  auto nodes = start({"a", "b"});
  {
    const auto here = nodes[0].make_rref(at::full({100}, 0.0F));
    const auto seen = [&] {
      return nodes[0].rpc_sync(
          "b",
          [](rref<at::Tensor> from) {
            const auto got = from.read_versioned(slice{10, 20});
            return std::pair(got.version, got.value.sum().item<float>());
          },
          here);
    };
    EXPECT_EQ(seen(), std::pair(std::uint64_t{0}, 0.0F));
    here.begin_update();
    here.local_value().add_(1);
    EXPECT_EQ(seen(), std::pair(std::uint64_t{0}, 0.0F));
    // Who writes to what it has read writes to nothing else.
    auto read = here.read();
    read.fill_(7);
    EXPECT_TRUE(here.read().equal(at::full({100}, 0.0F)));
    EXPECT_TRUE(here.local_value().equal(at::full({100}, 1.0F)));
    EXPECT_EQ(here.commit(), 1u);
    EXPECT_EQ(seen(), std::pair(std::uint64_t{1}, 10.0F));
    EXPECT_THROW(here.commit(), invalid_argument);
    const auto there = nodes[0].remote<&table>("b", 1);
    EXPECT_THROW(there.begin_update(), invalid_argument);
  }
  shut_down(nodes);
}

rref<at::Tensor> offer_rows(std::int64_t rows, std::int64_t columns) {
  return this_node().make_rref(at::zeros({rows, columns}));
}

// Writers of disjoint rows, and readers of others, at once: no write is lost.
TEST_P(tensor_reads, lose_no_write_beside_other_writers) {
  constexpr std::int64_t columns = 20'000;
  auto nodes = start({"a", "b"});
  {
    const auto there = nodes[0].rpc_sync<&offer_rows>("b", std::int64_t{8}, columns);
    std::vector<std::thread> threads;
    for (std::int64_t row = 0; row < 4; ++row)
      threads.emplace_back([&, row] {
        for (int i = 1; i <= 50; ++i) {
          there.write_from(at::full({1, columns}, static_cast<float>(i)), slice{row, row + 1});
          if (!there.read(slice{row, row + 1}).equal(at::full({1, columns}, static_cast<float>(i))))
            ADD_FAILURE() << "row " << row << " has lost a write";
        }
      });
    for (auto& one : threads) one.join();
  }
  shut_down(nodes);
}

TEST_P(tensor_reads, say_what_is_wrong) {
  auto nodes = start({"a", "b"});
  {
    EXPECT_FALSE(nodes[0].remote<&nothing>("b").read().defined());
    EXPECT_THROW(nodes[0].remote<&nothing>("b").read(slice{}), error);
    EXPECT_THROW(nodes[0].remote<&fails>("b").read(slice{}), remote_error);
    EXPECT_THROW(rref<at::Tensor>().read(), invalid_argument);
    const auto sparse = nodes[0].remote("b", [] { return at::ones({3, 3}).to_sparse(); });
    EXPECT_TRUE(sparse.read().is_sparse());
  }
  shut_down(nodes);
}

}  // namespace

}  // namespace troupe::test
