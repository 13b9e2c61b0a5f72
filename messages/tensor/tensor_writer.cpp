#include "troupe/messages/tensor/tensor_writer.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/QuantizerBase.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/tensor_entry_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_lease_internal.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"
#include "troupe/messages/tensor/tensor_plan_internal.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"

namespace troupe {

namespace {

using detail::table_entry;

// What a tensor may be for its bytes to mean the same elsewhere. Anything else (a subclass, a
// batched or nested tensor, a tracer's) keeps state that the table has no place for.
constexpr c10::DispatchKeySet allowed =
    c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::Sparse,
                         c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized,
                         c10::DispatchKey::AutogradFunctionality, c10::DispatchKey::ADInplaceOrView,
                         c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                         c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA,
                         c10::DispatchKey::AutocastXPU, c10::DispatchKey::AutocastHPU,
                         c10::DispatchKey::AutocastIPU, c10::DispatchKey::AutocastMTIA,
                         c10::DispatchKey::AutocastMPS, c10::DispatchKey::AutocastPrivateUse1,
                         c10::DispatchKey::Named}) |
    c10::DispatchKeySet(c10::BackendComponent::CPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::CUDABit) |
    c10::DispatchKeySet(c10::BackendComponent::HIPBit) |
    c10::DispatchKeySet(c10::BackendComponent::XPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::HPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::IPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::MTIABit) |
    c10::DispatchKeySet(c10::BackendComponent::MPSBit) |
    c10::DispatchKeySet(c10::BackendComponent::PrivateUse1Bit);

// In one message: transports say a word about each.
constexpr std::size_t most_leases = 4'096;

template <class Struct>
constexpr std::size_t words_of =
    Struct::_capnpPrivate::dataWordSize + Struct::_capnpPrivate::pointerCount;

// For a payload whose `keep` is a storage. A part of one is not frozen: the next write to any other
// part would copy all of it, away from those that write or read there meanwhile.
std::shared_ptr<const void> freeze_storage(const outgoing_payload& payload) {
  auto* const storage =
      static_cast<const c10::Storage*>(payload.keep.get())->unsafeGetStorageImpl();
  if (storage->nbytes() != payload.size || storage->data() != payload.data) return nullptr;
  auto frozen = copy_on_write::freeze(*storage);
  // Another thread that has written meanwhile, which is a race, leaves other memory here.
  if (!frozen || frozen->data() != payload.data) return nullptr;
  return std::make_shared<const c10::intrusive_ptr<c10::StorageImpl>>(std::move(frozen));
}

// Looked at once more, when it is sent: the tensor was taken into the table since, and autograd may
// have recorded it (a leaf that requires gradients lives on in its AccumulateGrad).
std::shared_ptr<std::byte> take_storage(const outgoing_payload& payload) {
  const auto& kept = *static_cast<const c10::Storage*>(payload.keep.get());
  if (kept.use_count() != 1) return nullptr;
  auto* const storage = kept.unsafeGetStorageImpl();
  if (storage->nbytes() != payload.size || storage->data() != payload.data) return nullptr;
  return copy_on_write::take(*storage);
}

bool is_only_user(const at::Tensor& t) {
  return t.defined() && t.use_count() == 1 && t.has_storage() && t.storage().use_count() == 1;
}

void check_quantizer(const at::Tensor& t, double scale, double zero_point) {
  if (!detail::quantizer_fits(detail::type_of(t), scale, zero_point))
    detail::refuse_tensor(t, "its scale or zero point is out of range");
}

}  // namespace

struct tensor_writer::state {
  detail::entry_list entries;
  detail::range_list ranges;
  detail::storage_list storages;
  std::vector<outgoing_payload> payloads;
  std::size_t inline_bytes = 0;
  bool planned = false;
  const device_route* route = nullptr;
  std::optional<lease_check> may_lease;
  std::size_t leases = 0;
  detail::outgoing_copies copies;

  std::uint32_t add(const at::Tensor& t, bool part, bool given = false);
  void add_strided(table_entry& entry, std::uint32_t index);
  void add_sparse_parts(table_entry& entry);
  void add_quantizer_parts(table_entry& entry);
  std::uint32_t add_part(at::Tensor part);
  void plan(const inline_limits& limits);
  bool travels_inline(const detail::planned_storage& s, const inline_limits& limits,
                      std::size_t used) const;
  void build_storage(detail::planned_storage& s, schema::TensorStorage::Builder out, bool within);
  bool lease(const detail::planned_storage& s, const memory_place& landing,
             schema::TensorStorage::Builder out);
  void take_to_host(detail::planned_storage& s);
  void finish_copies();
};

std::uint32_t tensor_writer::state::add(const at::Tensor& t, bool part, bool given) {
  if (planned) throw internal_error("A tensor was added to a table that is already laid out.");
  table_entry entry;
  entry.given = given && is_only_user(t);  // before the entry refers to it too
  entry.tensor = t;
  entry.part = part;
  bool strided = false;
  if (t.defined()) {
    const auto* impl = t.unsafeGetTensorImpl();
    if ((impl->key_set().raw_repr() & ~allowed.raw_repr()) != 0)
      detail::refuse_tensor(
          t,
          "only plain tensors in memory of the host or of an accelerator can; send a "
          "plain copy");
    if (impl->has_symbolic_sizes_strides()) detail::refuse_tensor(t, "its sizes are symbolic");
    if (impl->has_named_tensor_meta())
      detail::refuse_tensor(t, "its dimensions have names; send rename(nullopt)");
    if (static_cast<std::size_t>(t.dim()) > detail::max_dimensions)
      detail::refuse_tensor(t, "it has more than 64 dimensions");
    if (detail::element_size(detail::type_of(t)) == 0)
      detail::refuse_tensor(t, "its dtype has no bytes");
    strided = t.layout() == c10::kStrided;
    if (!strided) add_sparse_parts(entry);
    if (t.is_quantized()) add_quantizer_parts(entry);
  }
  if (entries.size() >= detail::max_tensors)
    throw encode_error("A message can hold 262,144 tensors, and this one has more: split it.");
  const auto index = static_cast<std::uint32_t>(entries.size());
  if (strided) add_strided(entry, index);
  entries.push_back(std::move(entry));
  return index;
}

void tensor_writer::state::add_strided(table_entry& entry, std::uint32_t index) {
  const auto& t = entry.tensor;
  const auto item = static_cast<std::int64_t>(t.itemsize());
  const auto count = detail::element_count(t.sizes(), t.itemsize());
  const auto extent = detail::element_extent(t.sizes(), t.strides(), t.itemsize());
  if (!count || !extent) detail::refuse_tensor(t, "its sizes or strides are out of range");
  if (*count == 0) return;
  const auto* storage = t.storage().unsafeGetStorageImpl();
  detail::byte_range range;
  range.storage = storage;
  range.entry = index;
  range.begin = t.storage_offset() * item;
  range.end = range.begin + *extent * item;
  range.bytes = *extent * item;
  if (*count < *extent) {
    range.bytes = *count * item;
    const auto strides = t.strides();
    if (std::find(strides.begin(), strides.end(), 0) != strides.end())
      range.bytes =
          *detail::element_count(detail::distinct_sizes(t.sizes(), strides), t.itemsize()) * item;
  }
  if (!storage->data()) detail::refuse_tensor(t, "its storage has no memory");
  if (range.end > static_cast<std::int64_t>(storage->nbytes()))
    detail::refuse_tensor(t, "it reaches beyond its storage, which was resized");
  ranges.push_back(range);
}

void tensor_writer::state::add_sparse_parts(table_entry& entry) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto& t = entry.tensor;
  switch (detail::layout_of(t)) {
    case schema::TensorLayout::SPARSE_COO:
      entry.parts[entry.part_count++] = add_part(t._indices());
      entry.parts[entry.part_count++] = add_part(t._values());
      return;
    case schema::TensorLayout::SPARSE_CSR:
    case schema::TensorLayout::SPARSE_BSR:
      entry.parts[entry.part_count++] = add_part(t.crow_indices());
      entry.parts[entry.part_count++] = add_part(t.col_indices());
      break;
    default:
      entry.parts[entry.part_count++] = add_part(t.ccol_indices());
      entry.parts[entry.part_count++] = add_part(t.row_indices());
  }
  entry.parts[entry.part_count++] = add_part(t.values());
}

void tensor_writer::state::add_quantizer_parts(table_entry& entry) {
  const auto& t = entry.tensor;
  switch (t.qscheme()) {
    case c10::kPerTensorAffine:
      check_quantizer(t, detail::per_tensor(t).scale(),
                      static_cast<double>(detail::per_tensor(t).zero_point()));
      return;
    case c10::kPerChannelAffine:
    case c10::kPerChannelAffineFloatQParams:
      if (t.device().is_cpu()) {
        at::AutoDispatchBelowADInplaceOrView no_autograd;
        const auto scales = detail::per_channel(t).scales().to(c10::kDouble).contiguous();
        const auto zeros = detail::per_channel(t).zero_points().to(c10::kDouble).contiguous();
        for (std::int64_t i = 0; i < scales.numel(); ++i)
          check_quantizer(t, scales.const_data_ptr<double>()[i], zeros.const_data_ptr<double>()[i]);
      }
      entry.parts[entry.part_count++] = add_part(detail::per_channel(t).scales());
      entry.parts[entry.part_count++] = add_part(detail::per_channel(t).zero_points());
      return;
    default: detail::refuse_tensor(t, "its quantisation is neither per tensor nor per channel");
  }
}

std::uint32_t tensor_writer::state::add_part(at::Tensor part) {
  // The receiver walks through parts: it demands that all their elements are really there.
  const auto extent = detail::element_extent(part.sizes(), part.strides(), part.itemsize());
  if (extent && *extent < part.numel()) part = part.contiguous();
  return add(part, true);
}

bool tensor_writer::state::travels_inline(const detail::planned_storage& s,
                                          const inline_limits& limits, std::size_t used) const {
  const auto size = static_cast<std::size_t>(s.sent);
  return size <= limits.each && used + size <= limits.total &&
         (size == 0 || entries[s.entry].tensor.device().is_cpu());
}

void tensor_writer::state::plan(const inline_limits& limits) {
  if (planned) return;
  if (!ranges.empty()) detail::plan_storages(entries, ranges, storages);
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    auto& entry = entries[i];
    if (!entry.tensor.defined() || entry.tensor.layout() != c10::kStrided) continue;
    if (entry.tensor.numel() > 0) continue;
    entry.storage = static_cast<std::uint32_t>(storages.size());
    storages.emplace_back().entry = i;
  }
  for (const auto& s : storages)
    if (travels_inline(s, limits, inline_bytes)) inline_bytes += static_cast<std::size_t>(s.sent);
  planned = true;
}

void tensor_writer::state::build_storage(detail::planned_storage& s,
                                         schema::TensorStorage::Builder out, bool within) {
  const auto& t = entries[s.entry].tensor;
  const auto size = static_cast<std::size_t>(s.sent);
  const bool on_device = !t.device().is_cpu();
  out.setSize(static_cast<std::uint64_t>(s.size));
  const auto place = detail::place_of(t.device());
  if (on_device) {
    out.setPlace(static_cast<std::uint8_t>(place.where));
    out.setDevice(static_cast<std::uint8_t>(place.device));
  }
  memory_place landing;
  if (route) {
    landing = route->landing(place);
    if (landing.where != memory_place::kind::host) {
      out.setLandingType(static_cast<std::uint8_t>(landing.where));
      out.setLanding(static_cast<std::uint8_t>(landing.device + 1));
    }
  }
  if (!s.pieces.empty()) {
    auto pieces = out.initPieces(static_cast<unsigned>(s.pieces.size()));
    for (unsigned i = 0; i < s.pieces.size(); ++i) pieces.set(i, s.pieces[i]);
  }
  if (within) {
    auto bytes = out.initInline(static_cast<unsigned>(size));
    if (size > 0) std::memcpy(bytes.begin(), s.data, size);
    return;
  }
  if (on_device && route) {
    if (lease(s, landing, out)) return;
    take_to_host(s);
  }
  out.setPayload(static_cast<std::uint32_t>(payloads.size()));
  auto& payload = payloads.emplace_back();
  payload.data = s.data;
  payload.size = size;
  if (on_device && !route) payload.place = place;
  payload.keep =
      std::make_shared<c10::Storage>(s.packed.defined() ? s.packed.storage() : t.storage());
  if (on_device && !route) return;
  payload.freeze = &freeze_storage;
  if (s.packed.defined() || entries[s.entry].given) payload.take = &take_storage;
}

// The receiver copies from this process's device to its own. False: it cannot.
bool tensor_writer::state::lease(const detail::planned_storage& s, const memory_place& landing,
                                 schema::TensorStorage::Builder out) {
  const auto& entry = entries[s.entry];
  const auto place = detail::place_of(entry.tensor.device());
  if (!may_lease || landing.where == memory_place::kind::host) return false;
  std::string problem;
  if (landing.where != place.where)
    problem = "the two devices have different types";
  else if (leases >= most_leases)
    problem =
        "the message leases " + std::to_string(leases) + " tensors already, as many as may be";
  if (!(*may_lease)(place, landing, problem) || !problem.empty()) return false;
  auto leased = detail::lease_bytes(s, entry, copies, problem);
  if (!leased) {
    (*may_lease)(place, landing, problem);
    return false;
  }
  ++leases;
  auto to = out.initLeased();
  to.setPayload(static_cast<std::uint32_t>(payloads.size()));
  to.setHandle(kj::arrayPtr(reinterpret_cast<const kj::byte*>(leased->where.handle.data()),
                            leased->where.handle.size()));
  to.setOffset(leased->where.offset);
  to.setBytes(static_cast<std::uint64_t>(s.sent));
  auto& payload = payloads.emplace_back();
  payload.size = static_cast<std::size_t>(s.sent);
  payload.place = place;
  payload.keep = std::make_shared<c10::Storage>(std::move(leased->keep));
  return true;
}

// The bytes are copied to the host here, and the receiver copies them to its device.
void tensor_writer::state::take_to_host(detail::planned_storage& s) {
  const auto& t = s.packed.defined() ? s.packed : entries[s.entry].tensor;
  try {
    s.packed = copies.to_host(s.data, static_cast<std::size_t>(s.sent), t.storage());
  } catch (const c10::Error& e) {
    throw encode_error("a tensor cannot be copied out of " + t.device().str() + ": " +
                       e.what_without_backtrace());
  }
  s.data = static_cast<const std::byte*>(s.packed.storage().data());
}

void tensor_writer::state::finish_copies() {
  if (copies.empty()) return;
  try {
    copies.wait();
  } catch (const c10::Error& e) {
    throw encode_error(std::string("a tensor cannot be copied out of its device: ") +
                       e.what_without_backtrace());
  }
}

tensor_writer::tensor_writer(inline_limits limits) noexcept : limits_(limits) {}
tensor_writer::tensor_writer(tensor_writer&&) noexcept = default;
tensor_writer& tensor_writer::operator=(tensor_writer&&) noexcept = default;
tensor_writer::~tensor_writer() = default;

tensor_writer::state& tensor_writer::made() {
  if (!state_) state_ = std::make_unique<state>();
  return *state_;
}

std::uint32_t tensor_writer::add(const at::Tensor& tensor, bool given) {
  return made().add(tensor, false, given);
}

void tensor_writer::set_route(const device_route& route,
                              std::optional<lease_check> may_lease) noexcept {
  state_->route = &route;
  state_->may_lease = may_lease;
}

std::vector<at::Tensor> tensor_writer::requiring_grad() const {
  std::vector<at::Tensor> out;
  if (!state_) return out;
  for (const auto& entry : state_->entries)
    if (!entry.part && entry.tensor.defined() && entry.tensor.requires_grad())
      out.push_back(entry.tensor);
  return out;
}

bool tensor_writer::empty() const noexcept { return !state_ || state_->entries.empty(); }

std::size_t tensor_writer::words() {
  auto total = words_of<schema::TensorTable> + 2;
  if (empty()) return total;
  auto& s = *state_;
  s.plan(limits_);
  total += s.storages.size() * (words_of<schema::TensorStorage> + 1) + s.inline_bytes / 8;
  for (const auto& storage : s.storages) {
    total += (storage.pieces.size() + 1) / 2;
    if (s.may_lease && !s.entries[storage.entry].tensor.device().is_cpu())
      total += words_of<schema::LeasedMemory> + device_ipc::most_handle / 8;
  }
  for (const auto& entry : s.entries) {
    total += words_of<schema::TensorEntry> + 2;  // with room for the parts
    if (!entry.tensor.defined()) continue;
    total += 2 * static_cast<std::size_t>(entry.tensor.dim());
    if (entry.tensor.is_quantized()) total += words_of<schema::TensorQuantizer>;
  }
  return total;
}

void tensor_writer::build(tensor_table_builder to) {
  if (empty()) return;
  auto& s = *state_;
  s.plan(limits_);
  auto table = to.table;
  auto storages = table.initStorages(static_cast<unsigned>(s.storages.size()));
  std::size_t used = 0;
  for (unsigned i = 0; i < s.storages.size(); ++i) {
    const bool within = s.travels_inline(s.storages[i], limits_, used);
    if (within) used += static_cast<std::size_t>(s.storages[i].sent);
    s.build_storage(s.storages[i], storages[i], within);
  }
  auto tensors = table.initTensors(static_cast<unsigned>(s.entries.size()));
  for (unsigned i = 0; i < s.entries.size(); ++i) detail::write_entry(s.entries[i], tensors[i]);
}

std::vector<outgoing_payload> tensor_writer::take_payloads() {
  if (!state_) return {};
  state_->finish_copies();
  return std::move(state_->payloads);
}

void tensor_writer::clear() noexcept {
  if (!state_) return;
  state_->entries.clear();
  state_->ranges.clear();
  state_->storages.clear();
  state_->payloads.clear();
  state_->inline_bytes = 0;
  state_->planned = false;
  state_->route = nullptr;
  state_->may_lease.reset();
  state_->leases = 0;
  state_->copies.end();
}

}  // namespace troupe
