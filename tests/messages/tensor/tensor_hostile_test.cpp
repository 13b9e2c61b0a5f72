#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/messages/tensor/tensor_table_testing.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"

namespace troupe::testing {
namespace {

using table_builder = schema::TensorTable::Builder;

// The message of the decode_error that reading all tensors of a table gives; empty if there is
// none.
std::string error_of(const packed_table& table) {
  storage_pool pool;
  try {
    read(table, pool, [](tensor_reader& reader) {
      for (std::uint32_t i = 0; i < reader.size(); ++i) reader.get(i);
    });
  } catch (const decode_error& e) {
    return e.what();
  }
  return {};
}

// The same for a valid table that `change` has spoilt.
std::string spoilt(const std::vector<at::Tensor>& tensors,
                   const std::function<void(table_builder)>& change) {
  tensor_writer writer;
  for (const auto& t : tensors) writer.add(t);
  capnp::MallocMessageBuilder message;
  writer.build(message.initRoot<schema::TensorTable>());
  change(message.getRoot<schema::TensorTable>());
  packed_table table;
  const auto flat = capnp::messageToFlatArray(message);
  table.words.resize(flat.size());
  std::memcpy(table.words.data(), flat.begin(), flat.asBytes().size());
  for (const auto& p : writer.take_payloads()) table.payloads.emplace_back(p.data, p.data + p.size);
  return error_of(table);
}

#define EXPECT_COMPLAINT(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(tensor_hostile, names_the_tensor_and_the_field) {
  const auto t = at::ones({4, 6}).t();
  EXPECT_EQ(spoilt({t}, [](auto) {}), "");
  const auto both = [&](auto change) {
    const auto text =
        spoilt({at::ones({2}), t}, [&](table_builder b) { change(b.getTensors()[1]); });
    EXPECT_COMPLAINT(text, "Tensor 1 ");
    return text;
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_COMPLAINT(both([](auto b) { b.getSizes().set(0, -1); }), "sizes");
  EXPECT_COMPLAINT(both([](auto b) { b.getSizes().set(0, 7); }), "strides and offset");
  EXPECT_COMPLAINT(both([](auto b) { b.getSizes().set(0, most); }), "sizes");
  EXPECT_COMPLAINT(both([](auto b) { b.initSizes(65); }), "sizes are more than 64");
  EXPECT_COMPLAINT(both([](auto b) { b.getStrides().set(0, -1); }), "strides");
  EXPECT_COMPLAINT(both([](auto b) { b.getStrides().set(0, most); }), "strides");
  EXPECT_COMPLAINT(both([](auto b) { b.getStrides().set(1, most / 3); }), "strides");
  EXPECT_COMPLAINT(both([](auto b) { b.initStrides(3); }), "strides");
  EXPECT_COMPLAINT(both([](auto b) { b.setOffset(1); }), "strides and offset");
  EXPECT_COMPLAINT(both([](auto b) { b.setOffset(~0ull); }), "strides and offset");
  EXPECT_COMPLAINT(both([](auto b) { b.setStorage(2); }), "storage");
  EXPECT_COMPLAINT(both([](auto b) { b.setType(schema::TensorType(46)); }), "dtype");
  EXPECT_COMPLAINT(both([](auto b) { b.setType(schema::TensorType::QUINT4X2); }), "dtype");
  EXPECT_COMPLAINT(both([](auto b) { b.setType(schema::TensorType::QINT32); }), "quantizer");
  EXPECT_COMPLAINT(both([](auto b) { b.setType(schema::TensorType::FLOAT64); }), "offset");
  EXPECT_COMPLAINT(both([](auto b) { b.setLayout(schema::TensorLayout(7)); }), "layout");
  EXPECT_COMPLAINT(both([](auto b) { b.setConjugate(true); }), "conjugate");
  EXPECT_COMPLAINT(both([](auto b) { b.initQuantizer(); }), "quantizer");
  EXPECT_COMPLAINT(both([](auto b) {
                     b.setType(schema::TensorType::INT32);
                     b.setRequiresGrad(true);
                   }),
                   "gradients");
}

TEST(tensor_hostile, checks_storages_against_what_arrived) {
  const auto small = at::ones({10});
  const auto large = at::ones({1000});
  const auto storage = [](auto change) {
    return [change](table_builder b) { change(b.getStorages()[0]); };
  };
  EXPECT_COMPLAINT(spoilt({small}, storage([](auto b) { b.setSize(41); })), "Storage 0");
  EXPECT_COMPLAINT(spoilt({large}, storage([](auto b) { b.setSize(1ull << 40); })), "Storage 0");
  EXPECT_COMPLAINT(spoilt({large}, storage([](auto b) { b.setPayload(1); })), "payload 1");
  EXPECT_COMPLAINT(spoilt({small}, storage([](auto b) { b.setPayload(0); })), "payload 0");
  EXPECT_COMPLAINT(spoilt({large}, storage([](auto b) { b.initInline(4000); })), "payloads");
  EXPECT_COMPLAINT(
      spoilt({large, large.clone()}, [](table_builder b) { b.getStorages()[1].setPayload(0); }),
      "Storage 1");
}

// Memory for it was never taken, so the device that it names was never checked.
TEST(tensor_hostile, refuses_an_empty_payload) {
  tensor_writer writer;
  writer.add(at::ones({0}));
  capnp::MallocMessageBuilder message;
  const auto table = message.initRoot<schema::TensorTable>();
  writer.build(table);
  message.getRoot<schema::TensorTable>().getStorages()[0].setPayload(0);
  for (const auto place : {memory_place::kind::host, memory_place::kind::cuda})
    EXPECT_THROW(tensor_reader(table.asReader(), {{nullptr, 0, {place, -7}}}), decode_error);
}

TEST(tensor_hostile, bounds_the_memory_that_gaps_take) {
  const auto column = at::ones({1000, 40}).select(1, 0);
  const auto storage = [](auto change) {
    return [change](table_builder b) { change(b.getStorages()[0]); };
  };
  EXPECT_EQ(spoilt({column}, [](auto) {}), "");
  EXPECT_COMPLAINT(spoilt({column}, storage([](auto b) { b.setSize(65ull << 20); })), "too large");
  EXPECT_COMPLAINT(spoilt({column}, storage([](auto b) { b.setSize(~0ull); })), "too large");
  EXPECT_COMPLAINT(spoilt({column}, storage([](auto b) { b.setSize(100); })), "offset");
  EXPECT_COMPLAINT(spoilt({column}, storage([](auto b) { b.initPieces(1).set(0, 9); })), "piece");
  EXPECT_COMPLAINT(spoilt({column}, storage([](auto b) { b.initPieces(2); })), "pieces");
  // Pieces of no bytes must not leave the storage without its memory.
  EXPECT_COMPLAINT(spoilt({at::empty({0})}, storage([](auto b) {
                            b.setSize(1000);
                            b.initPieces(1);
                          })),
                   "piece is empty");
}

TEST(tensor_hostile, checks_sparse_indices) {
  const auto coo = at::eye(4).to_sparse();
  const auto change_index = [](std::int64_t value) {
    return [value](table_builder b) {
      std::memcpy(b.getStorages()[0].getInline().begin(), &value, sizeof value);
    };
  };
  EXPECT_EQ(spoilt({coo}, change_index(0)), "");
  EXPECT_COMPLAINT(spoilt({coo}, change_index(4)), "indices");
  EXPECT_COMPLAINT(spoilt({coo}, change_index(-1)), "indices");
  EXPECT_COMPLAINT(spoilt({coo}, change_index(3)), "coalesced");
  EXPECT_COMPLAINT(spoilt({coo}, [](table_builder b) { b.getTensors()[2].getSizes().set(0, 3); }),
                   "indices");
  EXPECT_COMPLAINT(spoilt({coo}, [](table_builder b) { b.getTensors()[2].getParts().set(0, 2); }),
                   "parts");
  EXPECT_COMPLAINT(spoilt({coo}, [](table_builder b) { b.getTensors()[2].initParts(3); }), "parts");
  // A part whose elements are one element over and over would be walked through for ever.
  EXPECT_COMPLAINT(spoilt({coo},
                          [](table_builder b) {
                            auto part = b.getTensors()[0];
                            part.getSizes().set(1, std::int64_t{1} << 50);
                            part.initStrides(2);
                          }),
                   "repeat");
  const auto csr = at::eye(4).to_sparse_csr();
  EXPECT_EQ(spoilt({csr}, change_index(0)), "");
  EXPECT_COMPLAINT(spoilt({csr}, change_index(2)), "Tensor 3");
}

TEST(tensor_hostile, checks_quantizers) {
  const auto x = at::rand({3, 2});
  const auto per_tensor = at::quantize_per_tensor(x, 0.5, 1, at::kQInt8);
  const auto quantizer = [](auto change) {
    return [change](table_builder b) { change(b.getTensors()[0].getQuantizer().getPerTensor()); };
  };
  EXPECT_COMPLAINT(spoilt({per_tensor}, quantizer([](auto q) { q.setScale(NAN); })), "scale");
  EXPECT_COMPLAINT(spoilt({per_tensor}, quantizer([](auto q) { q.setZeroPoint(200); })), "zero");
  const auto per_channel = at::quantize_per_channel(x, at::ones({2}, at::kDouble),
                                                    at::zeros({2}, at::kLong), 1, at::kQInt8);
  const auto channels = [](auto change) {
    return [change](table_builder b) { change(b.getTensors()[2].getQuantizer().getPerChannel()); };
  };
  EXPECT_EQ(spoilt({per_channel}, channels([](auto) {})), "");
  EXPECT_COMPLAINT(spoilt({per_channel}, channels([](auto q) { q.setAxis(0); })), "channel");
  EXPECT_COMPLAINT(spoilt({per_channel}, channels([](auto q) { q.setAxis(2); })), "axis");
  EXPECT_COMPLAINT(spoilt({per_channel}, channels([](auto q) { q.setScales(1); })), "dtype");
  EXPECT_COMPLAINT(spoilt({per_channel}, channels([](auto q) { q.setScales(2); })), "parts");
  EXPECT_COMPLAINT(spoilt({per_channel}, channels([](auto q) { q.setFloatParameters(true); })),
                   "dtype");
}

TEST(tensor_hostile, refuses_an_index_outside_the_table) {
  const auto table = write({at::ones({2})});
  storage_pool pool;
  read(table, pool, [](tensor_reader& reader) { EXPECT_THROW(reader.get(1), decode_error); });
}

struct outcome {
  int refused = 0;
  int read = 0;
};

// Either a decode_error or tensors that lie within their memory; anything else ends the test.
void try_to_read(const packed_table& table, storage_pool& pool, outcome& out) {
  try {
    read(table, pool, [](tensor_reader& reader) {
      for (std::uint32_t i = 0; i < reader.size(); ++i) touch(reader.get(i));
    });
    ++out.read;
  } catch (const decode_error&) {
    ++out.refused;
  }
}

std::vector<packed_table> seeds() {
  const auto dense = at::randn({6, 8}) * (at::rand({6, 8}) > 0.5);
  const auto base = at::randn({40, 30});
  std::vector<packed_table> out;
  for (const auto& tensors : std::vector<std::vector<at::Tensor>>{
           {at::ones({3})},
           {base, base.t(), base.select(1, 2)},
           {base.select(1, 2), base.narrow(1, 1, 3), at::Tensor(), at::empty({0, 3})},
           {dense.to_sparse(), dense.to_sparse().set_requires_grad(true)},
           {dense.to_sparse_csr(), dense.to_sparse_bsr({2, 2}), dense.to_sparse_csc()},
           {at::quantize_per_tensor(dense, 0.1, 3, at::kQUInt8),
            at::quantize_per_channel(dense, at::rand({8}, at::kDouble) + 0.1,
                                     at::zeros({8}, at::kLong), 1, at::kQInt8)},
           {at::randn({4}, at::kComplexDouble).conj(), at::ones({1}).expand({9, 9}),
            at::ones({700}, at::kBool), at::randn({600})}})
    out.push_back(write(tensors));
  return out;
}

TEST(tensor_hostile, survives_mutations) {
  std::mt19937_64 random(4242);
  const auto tables = seeds();
  storage_pool pool;
  outcome out;
  for (int i = 0; i < 30'000; ++i) {
    auto table = tables[static_cast<std::size_t>(i) % tables.size()];
    const auto size = table.words.size() * sizeof(std::uint64_t);
    auto* bytes = reinterpret_cast<std::uint8_t*>(table.words.data());
    for (auto n = 1 + random() % 4; n > 0; --n) {
      const auto at = random() % size;
      switch (random() % 6) {
        case 0: bytes[at] = static_cast<std::uint8_t>(random()); break;
        case 1: bytes[at] ^= static_cast<std::uint8_t>(1u << random() % 8); break;
        case 2: bytes[at] = static_cast<std::uint8_t>(bytes[at] + random() % 5 - 2); break;
        case 3: std::memset(bytes + at / 8 * 8, random() % 2 ? 255 : 0, 8); break;
        case 4: std::memcpy(bytes + at / 8 * 8, bytes + random() % size / 8 * 8, 8); break;
        default:
          if (table.payloads.empty()) break;
          if (auto& p = table.payloads[random() % table.payloads.size()]; random() % 2 == 0)
            p.resize(random() % (p.size() + 2));
          else if (!p.empty())
            p[random() % p.size()] = std::byte(random());
      }
    }
    try_to_read(table, pool, out);
  }
  EXPECT_GT(out.refused, 3'000);
  EXPECT_GT(out.read, 3'000);
}

TEST(tensor_hostile, survives_truncation) {
  storage_pool pool;
  for (auto table : seeds()) {
    outcome out;
    while (!table.words.empty()) {
      table.words.pop_back();
      try_to_read(table, pool, out);
    }
    EXPECT_GT(out.refused, 0);
    // Cap'n Proto reads a message of no words as one whose root is absent.
    EXPECT_LE(out.read, 1);
  }
}

TEST(tensor_hostile, survives_random_bytes) {
  std::mt19937_64 random(1);
  storage_pool pool;
  outcome out;
  for (int i = 0; i < 5'000; ++i) {
    packed_table table;
    table.words.resize(1 + random() % 60);
    auto* words = table.words.data();
    for (std::size_t k = 0; k < table.words.size(); ++k) words[k] = random() >> (random() % 8 * 8);
    if (i % 2 == 0) words[0] = (table.words.size() - 1) << 32;  // a segment table that fits
    try_to_read(table, pool, out);
  }
  EXPECT_GT(out.refused, 2'000);
}

}  // namespace
}  // namespace troupe::testing
