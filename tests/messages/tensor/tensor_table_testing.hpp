#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <ATen/TensorOperators.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "troupe/messages/base/read_capnp.hpp"
#include "troupe/messages/memory/storage_pool.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::testing {

/// A table as it travels.
struct packed_table {
  std::vector<std::uint64_t> words;
  std::vector<std::vector<std::byte>> payloads;

  std::size_t payload_bytes() const {
    std::size_t total = 0;
    for (const auto& p : payloads) total += p.size();
    return total;
  }
};

inline packed_table take(tensor_writer& writer) {
  const auto most = writer.words() + 1;  // the root pointer
  capnp::MallocMessageBuilder message(static_cast<unsigned>(most),
                                      capnp::AllocationStrategy::FIXED_SIZE);
  writer.build(message.initRoot<schema::TensorTable>());
  packed_table out;
  const auto flat = capnp::messageToFlatArray(message);
  if (message.getSegmentsForOutput().size() != 1)
    throw internal_error("The writer's bound of words is too low.");
  out.words.resize(flat.size());
  std::memcpy(out.words.data(), flat.begin(), flat.asBytes().size());
  for (const auto& p : writer.take_payloads()) out.payloads.emplace_back(p.data, p.data + p.size);
  return out;
}

inline packed_table write(const std::vector<at::Tensor>& tensors,
                          std::vector<std::uint32_t>* indices = nullptr) {
  tensor_writer writer;
  for (const auto& t : tensors) {
    const auto index = writer.add(t);
    if (indices) indices->push_back(index);
  }
  return take(writer);
}

inline std::vector<incoming_payload> land(const packed_table& table, storage_pool& pool) {
  std::vector<incoming_payload> out;
  for (const auto& p : table.payloads) {
    auto& to = out.emplace_back();
    to.data = pool.allocate(p.size());
    to.size = p.size();
    if (!p.empty()) std::memcpy(to.data.get(), p.data(), p.size());
  }
  return out;
}

/// Reads a table that may be broken; calls `use` with the reader.
template <class Use>
void read(const packed_table& table, storage_pool& pool, Use&& use,
          const std::vector<memory_place>& usable = {}) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 8 * table.words.size() + 1024;
  read_capnp("A message", [&] {
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(table.words.data()), table.words.size()),
        options);
    tensor_reader reader(message.getRoot<schema::TensorTable>(), land(table, pool), usable);
    use(reader);
  });
}

inline std::vector<at::Tensor> round_trip(const std::vector<at::Tensor>& tensors) {
  std::vector<std::uint32_t> indices;
  const auto table = write(tensors, &indices);
  storage_pool pool;
  std::vector<at::Tensor> out;
  read(table, pool, [&](tensor_reader& reader) {
    for (const auto i : indices) out.push_back(reader.get(i));
  });
  return out;
}

inline at::Tensor round_trip(const at::Tensor& t) { return round_trip(std::vector{t}).at(0); }

/// Bytes of the elements in row-major order, whatever the dtype.
inline std::vector<std::byte> element_bytes(const at::Tensor& t) {
  std::vector<std::byte> out;
  const auto item = t.itemsize();
  const auto* base = static_cast<const std::byte*>(t.storage().data());
  std::vector<std::int64_t> at(static_cast<std::size_t>(t.dim()), 0);
  for (std::int64_t n = 0; n < t.numel(); ++n) {
    auto offset = t.storage_offset();
    for (std::size_t d = 0; d < at.size(); ++d)
      offset += at[d] * t.stride(static_cast<std::int64_t>(d));
    const auto* element = base + static_cast<std::size_t>(offset) * item;
    out.insert(out.end(), element, element + item);
    for (auto d = at.size(); d-- > 0;) {
      if (++at[d] < t.size(static_cast<std::int64_t>(d))) break;
      at[d] = 0;
    }
  }
  return out;
}

/// Reads every byte that a tensor may touch, so that a sanitizer sees one that does not belong to
/// it.
inline std::uint64_t touch(const at::Tensor& t) {
  if (!t.defined()) return 0;
  if (t.layout() == at::kSparse) return touch(t._indices()) + touch(t._values());
  if (t.layout() == at::kSparseCsr || t.layout() == at::kSparseBsr)
    return touch(t.crow_indices()) + touch(t.col_indices()) + touch(t.values());
  if (t.layout() != at::kStrided)
    return touch(t.ccol_indices()) + touch(t.row_indices()) + touch(t.values());
  if (t.numel() == 0) return 0;
  std::int64_t last = t.storage_offset();
  for (std::int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const auto* bytes = static_cast<const std::uint8_t*>(t.storage().data());
  std::uint64_t sum = 0;
  for (auto i = static_cast<std::size_t>(t.storage_offset()) * t.itemsize();
       i < static_cast<std::size_t>(last + 1) * t.itemsize(); ++i)
    sum += bytes[i];
  return sum;
}

}  // namespace troupe::testing
