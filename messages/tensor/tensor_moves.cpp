#include "troupe/messages/tensor/tensor_moves.hpp"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace troupe::detail {

namespace {

static_assert(static_cast<int>(memory_place::kind::host) == static_cast<int>(c10::kCPU));
static_assert(static_cast<int>(memory_place::kind::cuda) == static_cast<int>(c10::kCUDA));

// A tensor over the bytes of `storage`, which it keeps.
at::Tensor bytes_of(const c10::Storage& storage, std::int64_t offset, std::int64_t size) {
  auto out = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), keys_on(storage.device()), c10::scalarTypeToTypeMeta(c10::kByte));
  constexpr std::int64_t step = 1;
  out.unsafeGetTensorImpl()->set_sizes_and_strides(c10::IntArrayRef(size), c10::IntArrayRef(step),
                                                   offset);
  return out;
}

void order_after(const c10::Stream& waiting, const c10::Stream& before) {
  c10::Event reached(before.device_type());
  reached.record(before);
  reached.block(waiting);
}

// Memory for copies on a device belongs to this stream. It is of the pool, so that others may use
// it, too: a copy into such memory waits for what they have in hand.
c10::Stream stream_of_rooms(const c10::Device& device) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<c10::DeviceType, int>, c10::Stream>;
  const std::lock_guard lock(mutex);
  const auto name = std::pair(device.type(), static_cast<int>(device.index()));
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return known.emplace(name, guard.getStreamFromGlobalPool(device)).first->second;
}

// What copies from devices of that type go to while the host goes on: CUDA waits for copies to
// other memory. Null: there is none.
c10::Allocator* pinned_memory(c10::DeviceType type) {
  static std::mutex mutex;
  static auto& known = *new std::map<c10::DeviceType, c10::Allocator*>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(type, nullptr);
  if (is_new) try {
      at->second = at::globalContext().getPinnedMemoryAllocator(type);
    } catch (const c10::Error&) {
      // This type has none.
    }
  return at->second;
}

// Pinned, unless it is so large that pinning it, for good, would cost the machine too much.
at::Tensor room_on_host(c10::DeviceType of, std::size_t size) {
  constexpr std::size_t most_pinned = 256 << 20;
  const auto bytes = static_cast<std::int64_t>(size);
  if (auto* const pinned = size <= most_pinned ? pinned_memory(of) : nullptr) try {
      return bytes_of(c10::Storage(c10::Storage::use_byte_size_t(), bytes, pinned->allocate(size),
                                   pinned, false),
                      0, bytes);
    } catch (const c10::Error&) {
      // There is no more of it.
    }
  return at::empty({bytes}, at::TensorOptions().dtype(c10::kByte));
}

// Of tensors alone: the meta device has no memory.
bool has_memory(c10::DeviceType type) noexcept {
  return type != c10::DeviceType::CPU && type != c10::DeviceType::Meta;
}

}  // namespace

int device_count(memory_place::kind type) noexcept {
  const auto number = static_cast<std::uint8_t>(type);
  const auto known = static_cast<c10::DeviceType>(number);
  if (number >= device_types || !has_memory(known) || !c10::impl::hasDeviceGuardImpl(known))
    return 0;
  return std::clamp<int>(c10::impl::getDeviceGuardImpl(known)->deviceCount(), 0, most_devices);
}

std::vector<std::pair<memory_place::kind, int>> devices_here() {
  std::vector<std::pair<memory_place::kind, int>> out;
  for (std::uint8_t number = 0; number < device_types; ++number)
    if (const int count = device_count(static_cast<memory_place::kind>(number)); count > 0)
      out.emplace_back(static_cast<memory_place::kind>(number), count);
  return out;
}

c10::Device device_of(const memory_place& place) noexcept {
  if (place.where == memory_place::kind::host) return c10::Device(c10::kCPU);
  return c10::Device(static_cast<c10::DeviceType>(place.where), place.device);
}

memory_place place_of(const c10::Device& device) noexcept {
  if (device.is_cpu()) return {};
  return {static_cast<memory_place::kind>(device.type()), static_cast<std::int8_t>(device.index())};
}

c10::DispatchKeySet keys_on(const c10::Device& device) noexcept {
  if (device.is_cpu()) return c10::DispatchKeySet(c10::DispatchKey::CPU);
  return c10::DispatchKeySet(c10::computeDispatchKey(std::nullopt, std::nullopt, device));
}

outgoing_copies::side& outgoing_copies::beside(c10::Device device) {
  for (auto& one : sides_)
    if (one.stream.device() == device) return one;
  const c10::impl::VirtualGuardImpl guard(device.type());
  sides_.push_back({guard.getStreamFromGlobalPool(device), c10::Event(device.type())});
  auto& made = sides_.back();
  order_after(made.stream, guard.getStream(device));
  return made;
}

at::Tensor outgoing_copies::to_host(const std::byte* data, std::size_t size, c10::Storage from) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto bytes = static_cast<std::int64_t>(size);
  if (size == 0) return at::empty({0}, at::TensorOptions().dtype(c10::kByte));
  auto out = room_on_host(from.device_type(), size);
  const auto offset = data - static_cast<const std::byte*>(from.data());
  {
    auto& by = beside(from.device());
    by.reads = true;
    const c10::StreamGuard current(by.stream);
    out.copy_(bytes_of(from, offset, bytes), true);
  }
  used_.push_back(std::move(from));
  used_.push_back(out.storage());  // whatever becomes of the message
  return out;
}

// Of one stream for each device: memory that allocators keep for streams of the pool, one after the
// other, would be as many times as much.
at::Tensor outgoing_copies::room_on(c10::Device device, std::size_t size) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::StreamGuard current(stream_of_rooms(device));
  return at::empty({static_cast<std::int64_t>(size)},
                   at::TensorOptions().dtype(c10::kByte).device(device));
}

void outgoing_copies::copy(const std::byte* data, c10::Storage from, const at::Tensor& room) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto device = from.device();
  auto& by = beside(device);
  by.reads = true;
  const auto& stream = by.stream;
  order_after(stream, stream_of_rooms(device));
  const auto offset = data - static_cast<const std::byte*>(from.data());
  used_.push_back(room.storage());
  {
    const c10::StreamGuard current(stream);
    at::Tensor(room).copy_(bytes_of(from, offset, room.numel()), true);
  }
  used_.push_back(std::move(from));
}

void outgoing_copies::mark_end() {
  for (auto& one : sides_) {
    one.done.record(one.stream);
    const c10::impl::VirtualGuardImpl guard(one.stream.device_type());
    if (one.reads) one.done.block(guard.getStream(one.stream.device()));
  }
}

bool outgoing_copies::there() {
  for (const auto& one : sides_)
    if (!one.done.query()) return false;
  sides_.clear();
  used_.clear();
  return true;
}

void outgoing_copies::wait() {
  for (auto& one : sides_) one.done.record(one.stream);
  for (auto& one : sides_) one.done.synchronize();
  sides_.clear();
  used_.clear();
}

void outgoing_copies::end() noexcept {
  if (empty()) return;
  try {
    wait();
  } catch (const std::exception&) {
    // The device has failed: it writes nothing any more.
    sides_.clear();
    used_.clear();
  }
}

c10::Storage moved(const c10::Storage& from, c10::Device device) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto size = static_cast<std::int64_t>(from.nbytes());
  const auto out = at::empty({size}, at::TensorOptions().dtype(c10::kByte).device(device));
  if (size > 0) out.copy_(bytes_of(from, 0, size), true);
  return out.storage();
}

}  // namespace troupe::detail
