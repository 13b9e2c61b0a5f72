#include "messages/tensor_reader.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "messages/error_codec.hpp"
#include "messages/tensor_check_internal.hpp"
#include "messages/tensor_layout_internal.hpp"
#include "messages/tensor_pieces_internal.hpp"

namespace troupe {

namespace {

using detail::bad_tensor;

[[noreturn]] void bad_storage(std::size_t index, const std::string& problem) {
  throw decode_error("Storage " + std::to_string(index) +
                     " of a message cannot be read: " + problem + ".");
}

c10::Device device_of(const memory_place& place) {
  return place.where == memory_place::kind::cuda ? c10::Device(c10::kCUDA, place.device)
                                                 : c10::Device(c10::kCPU);
}

// Storage around memory that `data` owns.
c10::Storage make_storage(c10::DataPtr data, std::size_t size) {
  // With an allocator a tensor can be resized like any other; its new memory comes from there.
  auto* allocator =
      data.device().is_cpu() ? c10::GetCPUAllocator() : c10::GetAllocator(data.device().type());
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                               static_cast<std::int64_t>(size), std::move(data),
                                               allocator, allocator != nullptr);
}

c10::Storage storage_around(incoming_payload&& payload) {
  const auto device = device_of(payload.place);
  auto* bytes = payload.data.get();
  auto* owner = new std::shared_ptr<std::byte>(std::move(payload.data));
  const auto drop = [](void* p) { delete static_cast<std::shared_ptr<std::byte>*>(p); };
  return make_storage(c10::DataPtr(bytes, owner, drop, device), payload.size);
}

c10::Storage storage_of_copy(const std::byte* bytes, std::size_t size) {
  auto data = c10::GetCPUAllocator()->allocate(size);
  if (size > 0) std::memcpy(data.get(), bytes, size);
  return make_storage(std::move(data), size);
}

c10::Layout compressed_layout(schema::TensorLayout layout) {
  switch (layout) {
    case schema::TensorLayout::SPARSE_CSR: return c10::kSparseCsr;
    case schema::TensorLayout::SPARSE_CSC: return c10::kSparseCsc;
    case schema::TensorLayout::SPARSE_BSR: return c10::kSparseBsr;
    default: return c10::kSparseBsc;
  }
}

// libtorch's own checks throw c10::Error: for our callers they are bytes that make no sense.
template <class F>
decltype(auto) checked(std::size_t index, F&& make) {
  try {
    return std::forward<F>(make)();
  } catch (const c10::Error& e) {
    throw decode_error("Tensor " + std::to_string(index) +
                       " of a message cannot be read: " + e.what_without_backtrace());
  }
}

}  // namespace

struct tensor_reader::state {
  // Where a strided tensor lies.
  struct geometry {
    c10::DimVector sizes;
    c10::DimVector strides;
    std::int64_t offset = 0;  // in elements
    std::int64_t count = 0;   // of elements
    std::size_t item = 1;     // bytes of an element
  };

  capnp::List<schema::TensorEntry>::Reader tensors;
  capnp::List<schema::TensorStorage>::Reader descriptors;
  c10::SmallVector<c10::Storage, 2> storages;
  c10::SmallVector<at::Tensor, 2> made;

  state(schema::TensorTable::Reader table, std::vector<incoming_payload>&& payloads);
  c10::Storage expand(std::size_t index, const c10::Storage& packed);
  c10::DimVector read_sizes(std::size_t index, schema::TensorEntry::Reader in) const;
  geometry read_geometry(std::size_t index, schema::TensorEntry::Reader in) const;
  at::Tensor get(std::uint32_t index);
  at::Tensor make(std::uint32_t index);
  at::Tensor make_strided(std::uint32_t index, schema::TensorEntry::Reader in);
  at::Tensor make_sparse(std::uint32_t index, schema::TensorEntry::Reader in);
  at::QuantizerPtr make_quantizer(std::uint32_t index, schema::TensorEntry::Reader in,
                                  c10::IntArrayRef sizes);
  at::Tensor part(std::uint32_t of, std::uint32_t index);
};

tensor_reader::state::state(schema::TensorTable::Reader table,
                            std::vector<incoming_payload>&& payloads)
    : tensors(table.getTensors()), descriptors(table.getStorages()) {
  if (tensors.size() > detail::max_tensors || descriptors.size() > detail::max_tensors)
    throw decode_error("A message with more than 262,144 tensors or storages is refused.");
  storages.reserve(descriptors.size());
  std::size_t taken = 0;
  bool any_gaps = false;
  std::uint64_t inline_bytes = 0;
  std::uint64_t expanded = 0;
  std::uint64_t packed = 0;
  for (unsigned i = 0; i < descriptors.size(); ++i) {
    const auto in = descriptors[i];
    const bool gaps = in.getPieces().size() > 0;
    std::uint64_t arrived = 0;
    switch (in.which()) {
      case schema::TensorStorage::INLINE: {
        const auto bytes = in.getInline();
        arrived = bytes.size();
        inline_bytes += arrived;
        if (inline_bytes > detail::max_inline_bytes)
          bad_storage(i, "more than a MiB lies in the envelope");
        if (!gaps && arrived != in.getSize()) bad_storage(i, "its size is not that of its bytes");
        storages.push_back(storage_of_copy(reinterpret_cast<const std::byte*>(bytes.begin()),
                                           static_cast<std::size_t>(arrived)));
        break;
      }
      case schema::TensorStorage::PAYLOAD: {
        const auto index = in.getPayload();
        if (index != taken || index >= payloads.size())
          bad_storage(i, "it names payload " + std::to_string(index) + ", and the next of " +
                             std::to_string(payloads.size()) + " is " + std::to_string(taken));
        auto& payload = payloads[taken++];
        arrived = payload.size;
        if (!gaps && arrived != in.getSize())
          bad_storage(i, "its size is " + std::to_string(in.getSize()) +
                             " bytes, and its payload has " + std::to_string(arrived));
        if (arrived > 0 && reinterpret_cast<std::uintptr_t>(payload.data.get()) % 16 != 0)
          bad_storage(i, "its payload landed in memory that is not aligned");
        if (arrived > 0 && !payload.data) bad_storage(i, "its payload has no memory");
        storages.push_back(storage_around(std::move(payload)));
        break;
      }
      default: bad_storage(i, "its bytes are in an unknown place");
    }
    if (!gaps) continue;
    any_gaps = true;
    packed += arrived;
    if (in.getSize() > std::uint64_t{1} << 62 || (expanded += in.getSize()) >> 62 != 0 ||
        !detail::expansion_allowed(expanded, packed))
      bad_storage(i, "its size is too large for the bytes that arrived");
  }
  if (taken != payloads.size())
    throw decode_error("A message cannot be read: it has " + std::to_string(payloads.size()) +
                       " payloads, and its tensors use " + std::to_string(taken) + ".");
  // Only now, with all sizes checked, is memory for gaps taken.
  for (unsigned i = 0; any_gaps && i < descriptors.size(); ++i)
    if (descriptors[i].getPieces().size() > 0) storages[i] = expand(i, storages[i]);
  made.resize(tensors.size());
}

c10::Storage tensor_reader::state::expand(std::size_t index, const c10::Storage& packed) {
  const auto in = descriptors[static_cast<unsigned>(index)];
  const auto size = static_cast<std::int64_t>(in.getSize());
  const auto list = in.getPieces();
  if (list.size() > tensors.size()) bad_storage(index, "it has more pieces than tensors");
  std::vector<geometry> shapes;
  std::vector<detail::piece> pieces;
  shapes.reserve(list.size());
  for (const auto tensor : list) {
    if (tensor >= tensors.size() || tensors[tensor].getStorage() != index ||
        tensors[tensor].getLayout() != schema::TensorLayout::STRIDED)
      bad_storage(index, "a piece is not one of its tensors");
    const auto& g = shapes.emplace_back(read_geometry(tensor, tensors[tensor]));
    if (g.count == 0) bad_storage(index, "a piece is empty");
    pieces.push_back({g.sizes, g.strides, g.offset * static_cast<std::int64_t>(g.item), g.item});
  }
  const auto expected = detail::packed_size(pieces);
  if (!expected || static_cast<std::size_t>(*expected) != packed.nbytes())
    bad_storage(index, "its pieces are not as large as its bytes");
  return checked(index, [&] { return detail::unpack(packed, pieces, size); });
}

c10::DimVector tensor_reader::state::read_sizes(std::size_t index,
                                                schema::TensorEntry::Reader in) const {
  const auto list = in.getSizes();
  if (list.size() > detail::max_dimensions) bad_tensor(index, "sizes", "are more than 64");
  c10::DimVector sizes;
  for (const auto size : list) {
    if (size < 0) bad_tensor(index, "sizes", "are negative");
    sizes.push_back(size);
  }
  return sizes;
}

tensor_reader::state::geometry tensor_reader::state::read_geometry(
    std::size_t index, schema::TensorEntry::Reader in) const {
  geometry g;
  g.item = detail::element_size(in.getType());
  if (g.item == 0) bad_tensor(index, "dtype", "is unknown");
  g.sizes = read_sizes(index, in);
  const auto count = detail::element_count(g.sizes, g.item);
  if (!count) bad_tensor(index, "sizes", "are too large");
  g.count = *count;
  const auto list = in.getStrides();
  if (list.size() == 0) {
    g.strides = detail::row_major_strides(g.sizes);
  } else {
    if (list.size() != g.sizes.size()) bad_tensor(index, "strides", "are not as many as its sizes");
    for (const auto stride : list) g.strides.push_back(stride);
  }
  const auto extent = detail::element_extent(g.sizes, g.strides, g.item);
  if (!extent) bad_tensor(index, "strides", "are negative or too large");
  if (in.getStorage() >= descriptors.size()) bad_tensor(index, "storage", "does not exist");
  const auto room = descriptors[in.getStorage()].getSize() / g.item;
  if (in.getOffset() > room || static_cast<std::uint64_t>(*extent) > room - in.getOffset())
    bad_tensor(index, "strides and offset", "reach outside its storage");
  g.offset = static_cast<std::int64_t>(in.getOffset());
  return g;
}

at::Tensor tensor_reader::state::get(std::uint32_t index) {
  if (index >= made.size())
    throw decode_error("A message cannot be read: it names tensor " + std::to_string(index) +
                       " and has " + std::to_string(made.size()) + ".");
  if (!made[index].defined()) made[index] = make(index);
  return made[index];
}

at::Tensor tensor_reader::state::make(std::uint32_t index) {
  const auto in = tensors[index];
  at::Tensor out;
  switch (in.getLayout()) {
    case schema::TensorLayout::UNDEFINED: return out;
    case schema::TensorLayout::STRIDED: out = make_strided(index, in); break;
    case schema::TensorLayout::SPARSE_COO:
    case schema::TensorLayout::SPARSE_CSR:
    case schema::TensorLayout::SPARSE_CSC:
    case schema::TensorLayout::SPARSE_BSR:
    case schema::TensorLayout::SPARSE_BSC:
      out = checked(index, [&] { return make_sparse(index, in); });
      break;
    default: bad_tensor(index, "layout", "is unknown");
  }
  if (in.getRequiresGrad()) {
    const auto type = out.scalar_type();
    if (!c10::isFloatingType(type) && !c10::isComplexType(type))
      bad_tensor(index, "dtype", "has no gradients, and the tensor requires one");
    out.unsafeGetTensorImpl()->set_requires_grad(true);
  }
  return out;
}

at::Tensor tensor_reader::state::make_strided(std::uint32_t index, schema::TensorEntry::Reader in) {
  const auto g = read_geometry(index, in);
  const auto type = static_cast<c10::ScalarType>(in.getType());
  const bool quantised = c10::isQIntType(type);
  if (in.getConjugate() && !c10::isComplexType(type))
    bad_tensor(index, "conjugate bit", "is set, and it is not complex");
  if (in.getNegative() && (quantised || type == c10::kBool))
    bad_tensor(index, "negative bit", "is set, and its dtype has no negation");
  if (quantised != in.hasQuantizer())
    bad_tensor(index, "quantizer", quantised ? "is missing" : "does not belong to its dtype");
  c10::Storage storage(storages[in.getStorage()]);
  const bool cuda = storage.device_type() == c10::kCUDA;
  at::Tensor out;
  if (quantised) {
    const auto key = cuda ? c10::DispatchKey::QuantizedCUDA : c10::DispatchKey::QuantizedCPU;
    out = at::detail::make_tensor<at::QTensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(type),
        checked(index, [&] { return make_quantizer(index, in, g.sizes); }));
  } else {
    const auto key = cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
    out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                   c10::scalarTypeToTypeMeta(type));
  }
  auto* impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(g.sizes, g.strides, g.offset);
  if (in.getConjugate()) impl->_set_conj(true);
  if (in.getNegative()) impl->_set_neg(true);
  return out;
}

at::QuantizerPtr tensor_reader::state::make_quantizer(std::uint32_t index,
                                                      schema::TensorEntry::Reader in,
                                                      c10::IntArrayRef sizes) {
  const auto q = in.getQuantizer();
  const auto type = static_cast<c10::ScalarType>(in.getType());
  if (q.isPerTensor()) {
    const auto p = q.getPerTensor();
    if (!detail::quantizer_fits(in.getType(), p.getScale(), static_cast<double>(p.getZeroPoint())))
      bad_tensor(index, "quantizer's scale or zero point", "is out of range");
    return at::make_per_tensor_affine_quantizer(p.getScale(), p.getZeroPoint(), type);
  }
  if (!q.isPerChannel()) bad_tensor(index, "quantizer", "is unknown");
  const auto p = q.getPerChannel();
  const auto scales = part(index, p.getScales());
  const auto zero_points = part(index, p.getZeroPoints());
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  detail::check_channels(index, in.getType(), sizes, scales, zero_points, p.getAxis(),
                         p.getFloatParameters());
  return at::make_per_channel_affine_quantizer(scales, zero_points, p.getAxis(), type);
}

at::Tensor tensor_reader::state::make_sparse(std::uint32_t index, schema::TensorEntry::Reader in) {
  const auto item = detail::element_size(in.getType());
  if (item == 0) bad_tensor(index, "dtype", "is unknown");
  const auto sizes = read_sizes(index, in);
  if (!detail::element_count(sizes, item)) bad_tensor(index, "sizes", "are too large");
  const auto list = in.getParts();
  const bool coo = in.getLayout() == schema::TensorLayout::SPARSE_COO;
  if (list.size() != (coo ? 2 : 3)) bad_tensor(index, "parts", "are too few or too many");
  const auto first = part(index, list[0]);
  const auto second = part(index, list[1]);
  const auto values = coo ? second : part(index, list[2]);
  if (values.scalar_type() != static_cast<c10::ScalarType>(in.getType()))
    bad_tensor(index, "values", "have another dtype than the tensor");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (coo) {
    detail::check_coo(index, first, values, sizes, in.getCoalesced());
    return at::_sparse_coo_tensor_unsafe(first, values, sizes,
                                         values.options().layout(c10::kSparse), in.getCoalesced());
  }
  const auto layout = compressed_layout(in.getLayout());
  detail::check_compressed(index, first, second, values, sizes, layout);
  return at::_sparse_compressed_tensor_unsafe(first, second, values, sizes,
                                              values.options().layout(layout));
}

at::Tensor tensor_reader::state::part(std::uint32_t of, std::uint32_t index) {
  if (index >= of) bad_tensor(of, "parts", "do not come before it");
  const auto in = tensors[index];
  if (in.getLayout() != schema::TensorLayout::STRIDED || in.hasQuantizer() || in.getRequiresGrad())
    bad_tensor(of, "parts", "are not plain");
  auto out = get(index);
  // Checks walk through parts: expanded ones would make them run for ever.
  if (static_cast<std::size_t>(out.numel()) * out.itemsize() > out.storage().nbytes())
    bad_tensor(of, "parts", "repeat elements");
  return out;
}

tensor_reader::tensor_reader() noexcept = default;
tensor_reader::tensor_reader(tensor_reader&&) noexcept = default;
tensor_reader& tensor_reader::operator=(tensor_reader&&) noexcept = default;
tensor_reader::~tensor_reader() = default;

tensor_reader::tensor_reader(schema::TensorTable::Reader table,
                             std::vector<incoming_payload>&& payloads) {
  reading("A message's table of tensors",
          [&] { state_ = std::make_unique<state>(table, std::move(payloads)); });
}

std::size_t tensor_reader::size() const noexcept { return state_ ? state_->made.size() : 0; }

at::Tensor tensor_reader::get(std::uint32_t index) {
  if (!state_) throw decode_error("A message cannot be read: it names a tensor and has none.");
  return reading("A message's table of tensors", [&] { return state_->get(index); });
}

}  // namespace troupe
