#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/kept_storages.hpp"
#include "troupe/messages/tensor/lease_outcome.hpp"
#include "troupe/messages/tensor/opened_memory.hpp"
#include "troupe/messages/tensor/tensor_arrival_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"
#include "troupe/messages/tensor/tensor_pieces_internal.hpp"

namespace troupe::detail {

namespace {

[[noreturn]] void bad_storage(std::size_t index, const std::string& problem) {
  throw decode_error("Storage " + std::to_string(index) +
                     " of a message cannot be read: " + problem + ".");
}

memory_place landing_of(schema::TensorStorage::Reader in) {
  return {static_cast<memory_place::kind>(in.getLandingType()),
          static_cast<std::int8_t>(in.getLanding() - 1)};
}

// A storage is to be on a device: of a type that libtorch has, and one that is here and may be
// used.
void check_landing(std::size_t index, schema::TensorStorage::Reader in,
                   const std::vector<memory_place>& usable) {
  const auto type = in.getLandingType();
  if (type == 0 || type >= device_types || in.getLanding() > most_devices)
    bad_storage(index, "it should be on device " + std::to_string(in.getLanding() - 1) +
                           " of the type " + std::to_string(type) + ", which does not exist");
  const auto place = landing_of(in);
  const int count = device_count(place.where);
  if (place.device >= count)
    bad_storage(index, "it should be on " + to_string(place) + ", and this process can use " +
                           std::to_string(count) + " devices of that type");
  if (!usable.empty() && std::find(usable.begin(), usable.end(), place) == usable.end())
    bad_storage(index, "it should be on " + to_string(place) +
                           ", which is not among the devices that this node lets others use");
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
  if (payload.read_only)
    return make_storage(copy_on_write::read_only(std::move(payload.data)), payload.size);
  if (payload.place.where == memory_place::kind::host)
    return make_storage(copy_on_write::owned(std::move(payload.data)), payload.size);
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

}  // namespace

arrived_storages::arrived_storages(schema::TensorTable::Reader table,
                                   std::vector<incoming_payload>&& payloads,
                                   const std::vector<memory_place>& usable)
    : tensors_(table.getTensors()), descriptors_(table.getStorages()) {
  if (tensors_.size() > max_tensors || descriptors_.size() > max_tensors)
    throw decode_error("A message with more than 262,144 tensors or storages is refused.");
  storages_.reserve(descriptors_.size());
  std::size_t taken = 0;
  bool any_gaps = false;
  bool any_landing = false;
  std::uint64_t inline_bytes = 0;
  std::uint64_t expanded = 0;
  std::uint64_t packed = 0;
  for (unsigned i = 0; i < descriptors_.size(); ++i) {
    const auto in = descriptors_[i];
    const bool gaps = in.getPieces().size() > 0;
    if (in.getLanding() > 0) {
      any_landing = true;
      check_landing(i, in, usable);
    }
    std::uint64_t arrived = 0;
    switch (in.which()) {
      case schema::TensorStorage::INLINE: {
        const auto bytes = in.getInline();
        arrived = bytes.size();
        inline_bytes += arrived;
        if (inline_bytes > max_inline_bytes) bad_storage(i, "more than a MiB lies in the envelope");
        if (!gaps && arrived != in.getSize()) bad_storage(i, "its size is not that of its bytes");
        storages_.push_back(storage_of_copy(reinterpret_cast<const std::byte*>(bytes.begin()),
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
        // An empty payload would carry nothing but the name of a place, which has not been checked.
        if (arrived == 0 || !payload.data) bad_storage(i, "its payload is empty");
        if (reinterpret_cast<std::uintptr_t>(payload.data.get()) % 16 != 0)
          bad_storage(i, "its payload landed in memory that is not aligned");
        storages_.push_back(storage_around(std::move(payload)));
        break;
      }
      case schema::TensorStorage::LEASED: {
        const auto index = in.getLeased().getPayload();
        if (index != taken || index >= payloads.size())
          bad_storage(i, "it names the leased payload " + std::to_string(index) +
                             ", and the next of " + std::to_string(payloads.size()) + " is " +
                             std::to_string(taken));
        arrived = in.getLeased().getBytes();
        if (!gaps && arrived != in.getSize())
          bad_storage(i, "its size is not that of the bytes that are leased");
        storages_.push_back(borrow(i, std::move(payloads[taken++])));
        leased_.push_back(i);
        break;
      }
      default: bad_storage(i, "its bytes are in an unknown place");
    }
    if (!gaps) continue;
    any_gaps = true;
    packed += arrived;
    if (in.getSize() > std::uint64_t{1} << 62 || (expanded += in.getSize()) >> 62 != 0 ||
        !expansion_allowed(expanded, packed))
      bad_storage(i, "its size is too large for the bytes that arrived");
  }
  if (taken != payloads.size())
    throw decode_error("A message cannot be read: it has " + std::to_string(payloads.size()) +
                       " payloads, and its tensors use " + std::to_string(taken) + ".");
  // Only now, with all sizes checked, is memory for gaps taken.
  for (unsigned i = 0; any_gaps && i < descriptors_.size(); ++i)
    if (descriptors_[i].getPieces().size() > 0 && !is_leased(i))
      storages_[i] = expand(i, storages_[i]);
  if (any_landing) land_all();
}

bool arrived_storages::is_leased(std::size_t index) const noexcept {
  return std::binary_search(leased_.begin(), leased_.end(), static_cast<std::uint32_t>(index));
}

// Another process's memory, as long as it is copied: `payload`, which has no bytes, is its lease.
c10::Storage arrived_storages::borrow(std::size_t index, incoming_payload&& payload) {
  const auto in = descriptors_[static_cast<unsigned>(index)];
  const auto leased = in.getLeased();
  if (in.getLanding() == 0) bad_storage(index, "it is leased, and no device is named for it");
  const auto place = landing_of(in);
  if (payload.place.where != place.where || payload.data.get())
    bad_storage(index, "its payload is no lease of memory of such a device");
  const auto handle = leased.getHandle();
  const auto bytes = leased.getBytes();
  if (bytes == 0 || bytes != payload.size)
    bad_storage(index, "it has " + std::to_string(bytes) + " bytes, and its lease " +
                           std::to_string(payload.size));
  if (handle.size() > device_ipc::most_handle) bad_storage(index, "its handle is too long");
  std::shared_ptr<const opened_memory> memory;
  try {
    memory =
        open_memory(place, {reinterpret_cast<const std::byte*>(handle.begin()), handle.size()});
  } catch (const transport_error& e) {
    if (const auto* const lease = std::get_deleter<lease_deleter>(payload.data))
      lease->outcome->could_not_open = true;
    bad_storage(index, "the sender's memory cannot be opened on " + to_string(place) + ": " +
                           e.fault().text);
  }
  if (leased.getOffset() > memory->size || bytes > memory->size - leased.getOffset())
    bad_storage(index, "it has " + std::to_string(bytes) + " bytes at " +
                           std::to_string(leased.getOffset()) +
                           " of the sender's memory, which has " + std::to_string(memory->size));
  struct borrowed {
    std::shared_ptr<std::byte> lease;  // ends last: then the sender may use its memory again
    std::shared_ptr<const opened_memory> memory;
  };
  auto* const at = memory->data + leased.getOffset();
  auto* const owner = new borrowed{std::move(payload.data), std::move(memory)};
  const auto drop = [](void* p) { delete static_cast<borrowed*>(p); };
  return make_storage(c10::DataPtr(at, owner, drop, device_of(place)),
                      static_cast<std::size_t>(bytes));
}

// The copies run while the tensors are read and what uses them begins. Memory that was freed is
// used again at once on the stream that it belongs to, by a copy that waits for nothing: on the
// streams of copies nothing else allocates, so all others that use such memory are recorded.
void arrived_storages::land_all() {
  std::vector<c10::Storage> from;
  from.reserve(storages_.size());
  try {
    for (unsigned i = 0; i < descriptors_.size(); ++i)
      if (descriptors_[i].getLanding() > 0) land(i, from);
  } catch (...) {
    // Streams still read, above all what other processes write to as soon as it is dropped here.
    if (!from.empty()) keep_until_done(copies_.streams, std::move(from));
    throw;
  }
  if (from.empty()) return;
  keep_until_done(copies_.streams, std::move(from));
  copies_ = handed_on(copies_);
}

void arrived_storages::land(std::size_t index, std::vector<c10::Storage>& from) {
  const auto device = device_of(landing_of(descriptors_[static_cast<unsigned>(index)]));
  auto& storage = storages_[index];
  const bool leased = is_leased(index);
  if (storage.device() == device && !leased) return;
  try {
    const c10::StreamGuard current(stream_of(device));
    from.push_back(storage);  // before anything reads it
    storage = moved(storage, device);
    if (leased && descriptors_[static_cast<unsigned>(index)].getPieces().size() > 0)
      storage = expand(index, storage);
    copies_.made.push_back(storage.getWeakStorageImpl());
  } catch (const c10::Error& e) {
    bad_storage(index, "it cannot be moved to " + device.str() + ": " + e.what_without_backtrace());
  }
}

const c10::Stream& arrived_storages::stream_of(const c10::Device& device) {
  for (const auto& stream : copies_.streams)
    if (stream.device() == device) return stream;
  constexpr bool urgent = true;  // a pool of its own
  copies_.streams.push_back(
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, urgent));
  return copies_.streams.back();
}

c10::Storage arrived_storages::expand(std::size_t index, const c10::Storage& packed) {
  const auto in = descriptors_[static_cast<unsigned>(index)];
  const auto size = static_cast<std::int64_t>(in.getSize());
  const auto list = in.getPieces();
  if (list.size() > tensors_.size()) bad_storage(index, "it has more pieces than tensors");
  std::vector<geometry> shapes;
  std::vector<piece> pieces;
  shapes.reserve(list.size());
  for (const auto tensor : list) {
    if (tensor >= tensors_.size() || tensors_[tensor].getStorage() != index ||
        tensors_[tensor].getLayout() != schema::TensorLayout::STRIDED)
      bad_storage(index, "a piece is not one of its tensors");
    const auto& g = shapes.emplace_back(locate(tensor, tensors_[tensor]));
    if (g.count == 0) bad_storage(index, "a piece is empty");
    pieces.push_back({g.sizes, g.strides, g.offset * static_cast<std::int64_t>(g.item), g.item});
  }
  const auto expected = packed_size(pieces);
  if (!expected || static_cast<std::size_t>(*expected) != packed.nbytes())
    bad_storage(index, "its pieces are not as large as its bytes");
  return checked(index, [&] { return unpack(packed, pieces, size); });
}

c10::DimVector read_sizes(std::size_t index, schema::TensorEntry::Reader in) {
  const auto list = in.getSizes();
  if (list.size() > max_dimensions) bad_tensor(index, "sizes", "are more than 64");
  c10::DimVector sizes;
  for (const auto size : list) {
    if (size < 0) bad_tensor(index, "sizes", "are negative");
    sizes.push_back(size);
  }
  return sizes;
}

geometry arrived_storages::locate(std::size_t index, schema::TensorEntry::Reader in) const {
  geometry g;
  g.item = element_size(in.getType());
  if (g.item == 0) bad_tensor(index, "dtype", "is unknown");
  g.sizes = read_sizes(index, in);
  const auto count = element_count(g.sizes, g.item);
  if (!count) bad_tensor(index, "sizes", "are too large");
  g.count = *count;
  const auto list = in.getStrides();
  if (list.size() == 0) {
    g.strides = row_major_strides(g.sizes);
  } else {
    if (list.size() != g.sizes.size()) bad_tensor(index, "strides", "are not as many as its sizes");
    for (const auto stride : list) g.strides.push_back(stride);
  }
  const auto extent = element_extent(g.sizes, g.strides, g.item);
  if (!extent) bad_tensor(index, "strides", "are negative or too large");
  if (in.getStorage() >= descriptors_.size()) bad_tensor(index, "storage", "does not exist");
  const auto room = descriptors_[in.getStorage()].getSize() / g.item;
  if (in.getOffset() > room || static_cast<std::uint64_t>(*extent) > room - in.getOffset())
    bad_tensor(index, "strides and offset", "reach outside its storage");
  g.offset = static_cast<std::int64_t>(in.getOffset());
  return g;
}

}  // namespace troupe::detail
