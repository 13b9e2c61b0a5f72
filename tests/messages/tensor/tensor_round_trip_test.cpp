#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include <random>

#include "tests/messages/tensor/tensor_table_testing.hpp"

namespace troupe::testing {
namespace {

using c10::ScalarType;

// Every dtype with bytes of its own; quantised ones need a quantizer and have tests below.
const std::vector<ScalarType>& plain_types() {
  static const std::vector<ScalarType> types = [] {
    std::vector<ScalarType> out;
    for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i)
      if (const auto t = static_cast<ScalarType>(i);
          !c10::isQIntType(t) && t != ScalarType::Undefined)
        out.push_back(t);
    return out;
  }();
  return types;
}

// A tensor of any dtype with random bytes (0 and 1 for bool).
at::Tensor random_tensor(std::mt19937_64& random, at::IntArrayRef sizes, ScalarType type) {
  auto t = at::empty(sizes, at::TensorOptions().dtype(type));
  auto* bytes = static_cast<std::uint8_t*>(t.storage().mutable_data());
  for (std::size_t i = 0; i < t.nbytes(); ++i)
    bytes[i] = static_cast<std::uint8_t>(random() & (type == at::kBool ? 1 : 255));
  return t;
}

void expect_same(const at::Tensor& got, const at::Tensor& sent) {
  ASSERT_TRUE(got.defined());
  EXPECT_EQ(got.scalar_type(), sent.scalar_type());
  EXPECT_EQ(got.sizes(), sent.sizes());
  EXPECT_EQ(got.strides(), sent.strides());
  EXPECT_EQ(got.layout(), sent.layout());
  EXPECT_EQ(got.device(), sent.device());
  EXPECT_EQ(got.requires_grad(), sent.requires_grad());
  EXPECT_EQ(got.is_conj(), sent.is_conj());
  EXPECT_EQ(got.is_neg(), sent.is_neg());
  EXPECT_TRUE(got.is_leaf());
  EXPECT_EQ(element_bytes(got), element_bytes(sent));
}

// What a program may do to a tensor's view of its storage.
at::Tensor random_view(std::mt19937_64& random, at::Tensor t) {
  const auto pick = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int steps = static_cast<int>(random() % 4); steps > 0 && t.dim() > 0; --steps) {
    const auto dim = pick(t.dim());
    switch (random() % 6) {
      case 0: t = t.transpose(dim, pick(t.dim())); break;
      case 1:
        if (t.size(dim) > 0) t = t.slice(dim, pick(t.size(dim)), t.size(dim), 1 + pick(5));
        break;
      case 2:
        if (t.size(dim) > 0) t = t.select(dim, pick(t.size(dim)));
        break;
      case 3: t = t.unsqueeze(dim); break;
      case 4:
        if (t.size(dim) == 1)
          t = t.expand_symint([&] {
            auto sizes = t.sym_sizes().vec();
            sizes[static_cast<std::size_t>(dim)] = 1 + pick(6);
            return sizes;
          }());
        break;
      default:
        if (t.size(dim) > 2) t = t.unfold(dim, 2, 1 + pick(2));
    }
  }
  return t;
}

TEST(tensor_round_trip, keeps_every_dtype_in_every_view) {
  std::mt19937_64 random(20240601);
  int views_with_gaps = 0;
  for (const auto type : plain_types()) {
    for (int i = 0; i < 24; ++i) {
      std::vector<std::int64_t> sizes;
      for (auto dims = random() % 5; dims > 0; --dims)
        sizes.push_back(
            static_cast<std::int64_t>(random() % 9 == 0 ? random() % 2 : random() % 12));
      const auto t = random_view(random, random_tensor(random, sizes, type));
      if (!t.is_non_overlapping_and_dense()) ++views_with_gaps;
      SCOPED_TRACE(std::string(c10::toString(type)) + " " + c10::str(t.sizes()) + " strides " +
                   c10::str(t.strides()));
      expect_same(round_trip(t), t);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
  EXPECT_GT(views_with_gaps, 50);
}

TEST(tensor_round_trip, keeps_large_views) {
  std::mt19937_64 random(7);
  const auto t = random_tensor(random, {300, 200}, at::kFloat);
  for (const auto& view :
       {t, t.t(), t.select(1, 3), t.slice(0, 10, 290, 2), t.slice(1, 0, 200, 7), t.narrow(1, 50, 9),
        t.slice(0, 5, 6).expand({77, 200}), t.slice(1, 5, 6).expand({300, 31})})
    expect_same(round_trip(view), view);
}

TEST(tensor_round_trip, keeps_many_tensors_apart) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 100; ++i) {
    std::vector<at::Tensor> sent;
    const auto base = random_tensor(random, {40, 25}, at::kDouble);
    for (auto n = 1 + random() % 8; n > 0; --n) {
      const auto own = random_tensor(random, {static_cast<std::int64_t>(random() % 500)}, at::kInt);
      sent.push_back(random_view(random, random() % 2 == 0 ? base : own));
    }
    const auto got = round_trip(sent);
    for (std::size_t k = 0; k < sent.size(); ++k) expect_same(got[k], sent[k]);
  }
}

TEST(tensor_round_trip, keeps_empty_and_zero_dimensional_tensors) {
  for (const auto& t : {at::empty({0}), at::empty({3, 0, 5}), at::ones({4, 4}).narrow(1, 2, 0),
                        at::scalar_tensor(2.5), at::full({}, 7, at::kLong)})
    expect_same(round_trip(t), t);
  auto grown = round_trip(at::empty({0}));
  grown.resize_({1000}).fill_(1);
  EXPECT_EQ(grown.sum().item<float>(), 1000);
}

TEST(tensor_round_trip, keeps_undefined_tensors_in_their_places) {
  const auto got = round_trip({at::Tensor(), at::ones({2}), at::Tensor()});
  EXPECT_FALSE(got[0].defined());
  EXPECT_TRUE(got[1].equal(at::ones({2})));
  EXPECT_FALSE(got[2].defined());
}

TEST(tensor_round_trip, keeps_requires_grad_and_drops_the_graph) {
  const auto leaf = at::ones({3}).set_requires_grad(true);
  const auto result = leaf * 2;
  for (const auto& t : {leaf, result}) {
    const auto got = round_trip(t);
    EXPECT_TRUE(got.requires_grad());
    EXPECT_TRUE(got.is_leaf());
    EXPECT_FALSE(got.grad_fn());
    (got * 3).sum().backward();
    EXPECT_TRUE(got.grad().equal(at::full({3}, 3.0)));
  }
  EXPECT_FALSE(round_trip(leaf.detach()).requires_grad());
}

TEST(tensor_round_trip, keeps_lazy_conjugation_and_negation) {
  const auto z = at::randn({5, 3}, at::kComplexDouble);
  expect_same(round_trip(z.conj()), z.conj());
  EXPECT_TRUE(round_trip(z.conj()).resolve_conj().equal(z.conj().resolve_conj()));
  const auto negative = at::imag(z.conj());
  ASSERT_TRUE(negative.is_neg());
  expect_same(round_trip(negative), negative);
}

TEST(tensor_round_trip, keeps_received_tensors_usable) {
  const auto sent = at::randn({64, 64});
  auto got = round_trip(sent);
  got.mul_(2).add_(1);
  EXPECT_TRUE(got.equal(sent * 2 + 1));
  got.resize_({100, 100});
  EXPECT_EQ(got.numel(), 10000);
}

TEST(tensor_round_trip, keeps_sparse_coo) {
  const auto indices = at::tensor({2, 0, 2, 1, 1, 0}, at::kLong).view({2, 3});
  const auto values = at::randn({3, 4}, at::kDouble);
  const auto raw = at::sparse_coo_tensor(indices, values, {3, 2, 4});
  const auto grad = raw.coalesce().detach().set_requires_grad(true);
  for (const auto& t : {raw, raw.coalesce(), grad, at::zeros({4, 5}).to_sparse(),
                        at::eye(200).to_sparse(), at::eye(9).to_sparse(1),
                        at::sparse_coo_tensor(indices, at::ones({}).expand({3}), {3, 2})}) {
    const auto got = round_trip(t);
    ASSERT_EQ(got.layout(), at::kSparse);
    EXPECT_EQ(got.sizes(), t.sizes());
    EXPECT_EQ(got.is_coalesced(), t.is_coalesced());
    EXPECT_EQ(got.requires_grad(), t.requires_grad());
    EXPECT_TRUE(got._indices().equal(t._indices()));
    EXPECT_TRUE(got._values().equal(t._values()));
    EXPECT_TRUE(got.to_dense().equal(t.to_dense()));
  }
}

TEST(tensor_round_trip, keeps_sparse_compressed_layouts) {
  const auto dense = at::randn({6, 8}) * (at::rand({6, 8}) > 0.5);
  const auto batch = at::stack({dense, dense * 2});
  for (const auto& t :
       {dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr({2, 4}),
        dense.to_sparse_bsc({3, 2}), batch.to_sparse_csr(), at::zeros({3, 4}).to_sparse_csr(),
        dense.to_sparse_csr().set_requires_grad(true)}) {
    const auto got = round_trip(t);
    EXPECT_EQ(got.layout(), t.layout());
    EXPECT_EQ(got.sizes(), t.sizes());
    EXPECT_EQ(got.requires_grad(), t.requires_grad());
    EXPECT_TRUE(got.values().equal(t.values()));
    EXPECT_TRUE(got.to_dense().equal(t.to_dense()));
  }
}

TEST(tensor_round_trip, keeps_quantised_tensors) {
  const auto x = at::randn({7, 5});
  const auto scales = at::rand({5}, at::kDouble) + 0.01;
  const auto zeros = at::randint(0, 10, {5}, at::kLong);
  for (const auto type : {at::kQInt8, at::kQUInt8, at::kQInt32}) {
    for (const auto& t : {at::quantize_per_tensor(x, 0.125, 3, type),
                          at::quantize_per_tensor(x, 0.125, 3, type).t().slice(0, 1, 4),
                          at::quantize_per_channel(x, scales, zeros, 1, type)}) {
      const auto got = round_trip(t);
      EXPECT_EQ(got.qscheme(), t.qscheme());
      EXPECT_EQ(got.strides(), t.strides());
      EXPECT_TRUE(got.int_repr().equal(t.int_repr()));
      EXPECT_TRUE(got.dequantize().equal(t.dequantize()));
      if (t.qscheme() == at::kPerChannelAffine) {
        EXPECT_TRUE(got.q_per_channel_scales().equal(scales));
        EXPECT_TRUE(got.q_per_channel_zero_points().equal(zeros));
        EXPECT_EQ(got.q_per_channel_axis(), 1);
      }
    }
  }
  const auto floats =
      at::quantize_per_channel(x, scales.to(at::kFloat), at::rand({5}), 1, at::kQUInt8);
  ASSERT_EQ(floats.qscheme(), at::kPerChannelAffineFloatQParams);
  EXPECT_TRUE(round_trip(floats).dequantize().equal(floats.dequantize()));
}

// The message of the encode_error that `t` meets; empty if it travels.
std::string refusal(const at::Tensor& t) {
  try {
    write({t});
  } catch (const encode_error& e) {
    return e.what();
  }
  return {};
}

TEST(tensor_round_trip, refuses_what_cannot_travel_and_names_it) {
  const auto meta = refusal(at::empty({2}, at::TensorOptions().device(at::kMeta)));
  EXPECT_NE(meta.find("device meta"), std::string::npos) << meta;
  EXPECT_NE(meta.find("dtype Float"), std::string::npos) << meta;
  EXPECT_NE(meta.find("layout Strided"), std::string::npos) << meta;
  const auto nested = at::_nested_tensor_from_tensor_list({at::ones({2}), at::ones({3})});
  EXPECT_NE(refusal(nested), "");
  EXPECT_NE(refusal(at::_efficientzerotensor({2})), "");
  auto named = at::ones({2, 2}).rename(
      std::vector{at::Dimname::fromSymbol(at::Symbol::dimname("a")), at::Dimname::wildcard()});
  EXPECT_NE(refusal(named).find("names"), std::string::npos);
  auto gone = at::ones({100});
  gone.storage().unsafeGetStorageImpl()->set_nbytes(8);
  EXPECT_NE(refusal(gone).find("storage"), std::string::npos);
  EXPECT_EQ(refusal(at::ones({2})), "");
}

}  // namespace
}  // namespace troupe::testing
