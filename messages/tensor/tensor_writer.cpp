#include "troupe/messages/tensor/tensor_writer.hpp"

#include <c10/core/StorageImpl.h>

#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/tensor_entries_internal.hpp"
#include "troupe/messages/tensor/tensor_entry_internal.hpp"
#include "troupe/messages/tensor/tensor_lease_internal.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"
#include "troupe/messages/tensor/tensor_plan_internal.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"

namespace troupe {

namespace {

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

[[noreturn]] void refuse_copy(const c10::Error& e) {
  throw encode_error(std::string("a tensor cannot be copied out of its device: ") +
                     e.what_without_backtrace());
}

class pending_copies final : public pending_bytes {
public:
  explicit pending_copies(detail::outgoing_copies&& copies) : copies_(std::move(copies)) {}

  bool there() override {
    try {
      return copies_.there();
    } catch (const c10::Error& e) {
      refuse_copy(e);
    }
  }

private:
  detail::outgoing_copies copies_;
};

}  // namespace

struct tensor_writer::state {
  detail::tensor_entries added;
  detail::entry_list& entries = added.entries;
  detail::storage_list storages;
  std::vector<outgoing_payload> payloads;
  std::size_t inline_bytes = 0;
  bool planned = false;
  const device_route* route = nullptr;
  std::optional<lease_check> may_lease;
  std::size_t leases = 0;
  detail::outgoing_copies copies;

  void plan(const inline_limits& limits);
  bool travels_inline(const detail::planned_storage& s, const inline_limits& limits,
                      std::size_t used) const;
  void build_storage(detail::planned_storage& s, schema::TensorStorage::Builder out, bool within);
  bool lease(const detail::planned_storage& s, const memory_place& landing,
             schema::TensorStorage::Builder out);
  void take_to_host(detail::planned_storage& s);
  void finish_copies();
};

bool tensor_writer::state::travels_inline(const detail::planned_storage& s,
                                          const inline_limits& limits, std::size_t used) const {
  const auto size = static_cast<std::size_t>(s.sent);
  return size <= limits.each && used + size <= limits.total &&
         (size == 0 || entries[s.entry].tensor.device().is_cpu());
}

void tensor_writer::state::plan(const inline_limits& limits) {
  if (planned) return;
  if (!added.ranges.empty()) detail::plan_storages(entries, added.ranges, storages);
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
  payload.copied = payload.frozen = on_device;
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
    refuse_copy(e);
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
  auto& s = made();
  if (s.planned) throw internal_error("A tensor was added to a table that is already laid out.");
  return s.added.add(tensor, given);
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

// What only the message refers to (copies, and what was given) nobody changes.
std::unique_ptr<pending_bytes> tensor_writer::take_pending() {
  if (!state_ || state_->copies.empty()) return nullptr;
  for (auto& payload : state_->payloads)
    if (!payload.settle_for_later()) return nullptr;
  try {
    state_->copies.mark_end();
  } catch (const c10::Error& e) {
    refuse_copy(e);
  }
  return std::make_unique<pending_copies>(std::move(state_->copies));
}

std::vector<outgoing_payload> tensor_writer::take_payloads() {
  if (!state_) return {};
  state_->finish_copies();
  return std::move(state_->payloads);
}

void tensor_writer::clear() noexcept {
  if (!state_) return;
  state_->added.clear();
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
