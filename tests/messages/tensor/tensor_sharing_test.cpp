#include <ATen/ops/_lazy_clone.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <c10/core/impl/COW.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/messages/tensor/tensor_table_testing.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"

namespace troupe::testing {
namespace {

std::size_t bytes_for(const std::vector<at::Tensor>& tensors) {
  const auto table = write(tensors);
  return table.words.size() * 8 + table.payload_bytes();
}

bool share(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

TEST(tensor_sharing, sends_a_storage_of_two_views_once) {
  const auto base = at::arange(100'000, at::kFloat);
  const auto a = base.slice(0, 0, 60'000);
  const auto b = base.slice(0, 50'000, 100'000);
  EXPECT_EQ(write({a, b}).payload_bytes(), 400'000u);
  const auto got = round_trip({a, b});
  EXPECT_TRUE(share(got[0], got[1]));
  got[0][55'000] = -1;
  EXPECT_EQ(got[1][5'000].item<float>(), -1);
}

TEST(tensor_sharing, sends_a_tensor_twice_in_a_message_once) {
  const auto a = at::randn({1000});
  const auto column = at::randn({1000, 40}).select(1, 5);
  EXPECT_EQ(write({a, a}).payload_bytes(), 4000u);
  EXPECT_EQ(write({column, column}).payload_bytes(), 4000u);
  for (const auto& t : {a, column}) {
    const auto got = round_trip({t, t});
    EXPECT_TRUE(share(got[0], got[1]));
    EXPECT_TRUE(got[1].equal(t));
    EXPECT_EQ(got[1].strides(), t.strides());
  }
}

TEST(tensor_sharing, keeps_neighbours_together_and_strangers_apart) {
  const auto base = at::randn({1000, 100});
  const auto near = round_trip({base[3], base[4], base[5]});
  EXPECT_TRUE(share(near[0], near[1]) && share(near[1], near[2]));
  const auto table = write({base[3], base[900]});
  EXPECT_EQ(table.payloads.size() + table.payload_bytes(), 0u);  // two small rows, both inline
  const auto far = round_trip({base[3], base[900]});
  EXPECT_FALSE(share(far[0], far[1]));
  EXPECT_TRUE(far[1].equal(base[900]));
}

TEST(tensor_sharing, keeps_views_of_several_dtypes_together) {
  const auto z = at::randn({500}, at::kComplexDouble);
  const auto parts = at::view_as_real(z).view({-1}).slice(0, 3, 900);
  const auto got = round_trip({z.slice(0, 1), parts});
  EXPECT_TRUE(share(got[0], got[1]));
  EXPECT_TRUE(got[0].equal(z.slice(0, 1)));
  EXPECT_TRUE(got[1].equal(parts));
}

TEST(tensor_sharing, keeps_two_columns_of_a_matrix_together) {
  const auto m = at::randn({2000, 300});
  const auto a = m.select(1, 7);
  const auto b = m.narrow(1, 5, 4);
  const auto table = write({a, b});
  EXPECT_EQ(table.payload_bytes(), 2000u * 4 * (1 + 4));
  const auto got = round_trip({a, b});
  EXPECT_TRUE(share(got[0], got[1]));
  EXPECT_TRUE(got[0].equal(a));
  EXPECT_TRUE(got[1].equal(b));
  EXPECT_EQ(got[0].strides(), a.strides());
  EXPECT_EQ(got[1].strides(), b.strides());
  got[0].fill_(5);
  EXPECT_TRUE(got[1].select(1, 2).equal(got[0]));
}

TEST(tensor_sharing, ships_no_more_than_a_view_covers) {
  const auto big = at::zeros({1 << 20, 64});  // 256 MiB
  EXPECT_LT(bytes_for({big.narrow(0, 1000, 4)}), 1400u);
  EXPECT_EQ(write({big.narrow(0, 1000, 40)}).payload_bytes(), 40u * 64 * 4);
  for (const auto& view :
       {big.narrow(0, 5, 4096).select(1, 0), big.narrow(0, 5, 4096).slice(1, 0, 64, 3),
        big.slice(0, 0, 1 << 20, 4096), big.narrow(0, 0, 1).expand({1000, 64}),
        big.narrow(0, 0, 4096).t(), big.narrow(0, 0, 512).slice(1, 0, 40)}) {
    const auto elements = view.stride(0) == 0 ? 64 * 4 : view.numel() * 4;
    EXPECT_LE(write({view}).payload_bytes(), static_cast<std::size_t>(2 * elements));
  }
}

// Bytes of storages, in the envelope and beside it.
std::size_t storage_bytes(const packed_table& table) {
  capnp::FlatArrayMessageReader message(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(table.words.data()), table.words.size()));
  auto total = table.payload_bytes();
  for (const auto storage : message.getRoot<schema::TensorTable>().getStorages())
    if (storage.isInline()) total += storage.getInline().size();
  return total;
}

TEST(tensor_sharing, ships_at_most_twice_the_elements_of_any_views) {
  std::mt19937_64 random(77);
  const auto base = at::randn({30, 40, 50});
  for (int i = 0; i < 400; ++i) {
    std::vector<at::Tensor> views;
    std::size_t elements = 0;
    for (auto n = 1 + random() % 5; n > 0; --n) {
      auto view = base;
      for (int steps = 0; steps < 3; ++steps) {
        const auto dim = static_cast<std::int64_t>(random() % 3);
        const auto from = static_cast<std::int64_t>(random() % 8);
        const auto step = static_cast<std::int64_t>(1 + random() % 6);
        if (view.size(dim) > from) view = view.slice(dim, from, view.size(dim), step);
      }
      elements += view.nbytes();
      views.push_back(view);
    }
    const auto table = write(views);
    EXPECT_LE(storage_bytes(table), 2 * elements);
    const auto got = round_trip(views);
    for (std::size_t k = 0; k < views.size(); ++k) {
      ASSERT_TRUE(got[k].equal(views[k]));
      ASSERT_EQ(got[k].strides(), views[k].strides());
    }
  }
}

TEST(tensor_sharing, compacts_gaps_too_large_to_allocate) {
  const auto big = at::zeros({1 << 16, 1024});  // 256 MiB
  big.select(1, 9).copy_(at::arange(1 << 16, at::kFloat));
  const auto column = big.select(1, 9);
  const auto got = round_trip({column, big.narrow(1, 9, 2).t(), big[4], big.narrow(0, 4, 2)});
  EXPECT_TRUE(got[0].equal(column));
  EXPECT_EQ(got[0].storage().nbytes(), column.nbytes());
  EXPECT_TRUE(got[1].equal(big.narrow(1, 9, 2).t()));
  EXPECT_EQ(got[1].strides(), (std::vector<std::int64_t>{1, 2}));  // still column by column
  EXPECT_TRUE(share(got[2], got[3]));
  EXPECT_TRUE(got[3].equal(big.narrow(0, 4, 2)));
}

TEST(tensor_sharing, copies_nothing_that_is_dense) {
  const auto t = at::randn({1000, 10});
  for (const auto& view : {t, t.t(), t.narrow(0, 10, 500)}) {
    tensor_writer writer;
    writer.add(view);
    capnp::MallocMessageBuilder message;
    writer.build(message.initRoot<schema::TensorTable>());
    const auto payloads = writer.take_payloads();
    ASSERT_EQ(payloads.size(), 1u);
    EXPECT_EQ(payloads[0].data, view.const_data_ptr());
    EXPECT_EQ(payloads[0].size, view.nbytes());
  }
}

TEST(tensor_sharing, keeps_a_sent_tensors_memory_until_the_payload_is_dropped) {
  auto t = at::ones({1000});
  const auto weak = t.storage().getWeakStorageImpl();
  tensor_writer writer;
  writer.add(t);
  capnp::MallocMessageBuilder message;
  writer.build(message.initRoot<schema::TensorTable>());
  auto payloads = writer.take_payloads();
  writer.clear();
  t.reset();
  EXPECT_FALSE(weak.expired());
  EXPECT_EQ(reinterpret_cast<const float*>(payloads[0].data)[999], 1);
  payloads.clear();
  EXPECT_TRUE(weak.expired());
}

TEST(tensor_sharing, reads_straight_from_the_payload) {
  const auto table = write({at::arange(1000, at::kInt)});
  storage_pool pool;
  auto payloads = land(table, pool);
  const auto* data = payloads[0].data.get();
  capnp::FlatArrayMessageReader message(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(table.words.data()), table.words.size()));
  at::Tensor got;
  {
    tensor_reader reader(message.getRoot<schema::TensorTable>(), std::move(payloads));
    got = reader.get(0);
    EXPECT_TRUE(reader.get(0).is_same(got));
  }
  EXPECT_EQ(got.const_data_ptr(), data);
  EXPECT_EQ(pool.count().in_use, 4096u);
  got.reset();
  EXPECT_EQ(pool.count().in_use, 0u);
}

TEST(tensor_sharing, leaves_copy_on_write_tensors_as_they_are) {
  const auto t = at::randn({50, 50});
  const auto clone = at::_lazy_clone(t);
  const auto lazy = [](const at::Tensor& x) {
    return c10::impl::cow::is_cow_data_ptr(x.storage().data_ptr());
  };
  ASSERT_TRUE(lazy(t) && lazy(clone));
  const auto got = round_trip({t, clone, clone.select(1, 3), clone.slice(1, 0, 50, 7)});
  EXPECT_TRUE(lazy(t) && lazy(clone));
  EXPECT_TRUE(got[1].equal(t));
  EXPECT_EQ(t.const_data_ptr(), clone.const_data_ptr());
}

TEST(tensor_sharing, puts_small_storages_into_the_envelope_up_to_a_limit) {
  EXPECT_TRUE(write({at::ones({512})}).payloads.empty());
  EXPECT_EQ(write({at::ones({513})}).payloads.size(), 1u);
  std::vector<at::Tensor> many;
  for (int i = 0; i < 100; ++i) many.push_back(at::full({256}, i, at::kFloat));
  const auto table = write(many);
  EXPECT_EQ(table.payloads.size(), 94u);
  const auto got = round_trip(many);
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_TRUE(got[i].equal(many[i]));
}

TEST(tensor_sharing, writes_the_same_bytes_for_the_same_tensors) {
  const auto make = [] {
    std::vector<at::Tensor> out;
    for (int i = 0; i < 20; ++i) out.push_back(at::full({i * 40}, i));
    return write(out);
  };
  const auto once = make();
  const auto again = make();
  ASSERT_EQ(once.words.size(), again.words.size());
  EXPECT_EQ(std::memcmp(once.words.data(), again.words.data(), once.words.size() * 8), 0);
  EXPECT_EQ(once.payloads, again.payloads);
}

}  // namespace
}  // namespace troupe::testing
