#include "troupe/messages/tensor/tensor_reader.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/clone.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/impl/COW.h>
#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "troupe/messages/base/read_capnp.hpp"
#include "troupe/messages/tensor/tensor_arrival_internal.hpp"
#include "troupe/messages/tensor/tensor_check_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe {

namespace {

using detail::bad_tensor;
using detail::checked;

c10::Layout compressed_layout(schema::TensorLayout layout) {
  switch (layout) {
    case schema::TensorLayout::SPARSE_CSR: return c10::kSparseCsr;
    case schema::TensorLayout::SPARSE_CSC: return c10::kSparseCsc;
    case schema::TensorLayout::SPARSE_BSR: return c10::kSparseBsr;
    default: return c10::kSparseBsc;
  }
}

// Whoever has lent indices may change them after the check, by mistake or not, and operators do not
// look again where they lead: these are copied.
at::Tensor kept_as_checked(const at::Tensor& indices) {
  return c10::impl::cow::is_cow_data_ptr(indices.storage().data_ptr()) ? indices.clone() : indices;
}

}  // namespace

struct tensor_reader::state {
  capnp::List<schema::TensorEntry>::Reader tensors;
  detail::arrived_storages storages;
  c10::SmallVector<at::Tensor, 2> made;

  state(schema::TensorTable::Reader table, std::vector<incoming_payload>&& payloads,
        const std::vector<memory_place>& usable)
      : tensors(table.getTensors()), storages(table, std::move(payloads), usable) {
    made.resize(tensors.size());
  }

  at::Tensor get(std::uint32_t index);
  at::Tensor make(std::uint32_t index);
  at::Tensor make_strided(std::uint32_t index, schema::TensorEntry::Reader in);
  at::Tensor make_sparse(std::uint32_t index, schema::TensorEntry::Reader in);
  at::QuantizerPtr make_quantizer(std::uint32_t index, schema::TensorEntry::Reader in,
                                  c10::IntArrayRef sizes);
  at::Tensor part(std::uint32_t of, std::uint32_t index);
};

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
  const auto g = storages.locate(index, in);
  const auto type = static_cast<c10::ScalarType>(in.getType());
  const bool quantised = c10::isQIntType(type);
  if (in.getConjugate() && !c10::isComplexType(type))
    bad_tensor(index, "conjugate bit", "is set, and it is not complex");
  if (in.getNegative() && (quantised || type == c10::kBool))
    bad_tensor(index, "negative bit", "is set, and its dtype has no negation");
  if (quantised != in.hasQuantizer())
    bad_tensor(index, "quantizer", quantised ? "is missing" : "does not belong to its dtype");
  c10::Storage storage(storages[in.getStorage()]);
  at::Tensor out;
  if (quantised) {
    const auto key = c10::computeDispatchKey(type, std::nullopt, storage.device());
    out = at::detail::make_tensor<at::QTensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(type),
        checked(index, [&] { return make_quantizer(index, in, g.sizes); }));
  } else {
    const auto keys = detail::keys_on(storage.device());
    out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys,
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
  const auto sizes = detail::read_sizes(index, in);
  if (!detail::element_count(sizes, item)) bad_tensor(index, "sizes", "are too large");
  const auto list = in.getParts();
  const bool coo = in.getLayout() == schema::TensorLayout::SPARSE_COO;
  if (list.size() != (coo ? 2 : 3)) bad_tensor(index, "parts", "are too few or too many");
  auto first = part(index, list[0]);
  auto second = part(index, list[1]);
  const auto values = coo ? second : part(index, list[2]);
  if (values.scalar_type() != static_cast<c10::ScalarType>(in.getType()))
    bad_tensor(index, "values", "have another dtype than the tensor");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (coo) {
    first = kept_as_checked(first);
    detail::check_coo(index, first, values, sizes, in.getCoalesced());
    return at::_sparse_coo_tensor_unsafe(first, values, sizes,
                                         values.options().layout(c10::kSparse), in.getCoalesced());
  }
  const auto layout = compressed_layout(in.getLayout());
  first = kept_as_checked(first);
  second = kept_as_checked(second);
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

tensor_reader::tensor_reader(tensor_reader&&) noexcept = default;
tensor_reader& tensor_reader::operator=(tensor_reader&&) noexcept = default;
tensor_reader::~tensor_reader() = default;

tensor_reader::tensor_reader(schema::TensorTable::Reader table,
                             std::vector<incoming_payload>&& payloads,
                             const std::vector<memory_place>& usable) {
  read_capnp("A message's table of tensors",
             [&] { state_ = std::make_unique<state>(table, std::move(payloads), usable); });
}

std::size_t tensor_reader::size() const noexcept { return state_ ? state_->made.size() : 0; }

const detail::device_work* tensor_reader::copies() const noexcept {
  return state_ && !state_->storages.copies().streams.empty() ? &state_->storages.copies()
                                                              : nullptr;
}

void tensor_reader::let_go() noexcept { state_.reset(); }

std::vector<at::Tensor> tensor_reader::requiring_grad() {
  std::vector<at::Tensor> out;
  for (std::uint32_t i = 0; i < size(); ++i)
    if (state_->tensors[i].getRequiresGrad()) out.push_back(get(i));
  return out;
}

at::Tensor tensor_reader::get(std::uint32_t index) {
  if (!state_) throw decode_error("a message's tensors are read after they were let go");
  return read_capnp("A message's table of tensors", [&] { return state_->get(index); });
}

}  // namespace troupe
