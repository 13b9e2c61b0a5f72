#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "troupe/messages/memory/payload.hpp"

// Bytes of tensors from one device to another, by libtorch's interfaces for devices of any type.
namespace troupe::detail {

/// Device types have smaller numbers than this; that of host memory is the first.
constexpr std::uint8_t device_types = static_cast<std::uint8_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);

/// The most devices of one type.
constexpr int most_devices = 128;

/// Devices of that type that this process can use; 0: host memory, too.
int device_count(memory_place::kind type) noexcept;

/// The types of which it can use some, and how many.
std::vector<std::pair<memory_place::kind, int>> devices_here();

c10::Device device_of(const memory_place& place) noexcept;

/// Where a tensor lies that may be sent.
memory_place place_of(const c10::Device& device) noexcept;

/// The key of plain tensors on `device`.
c10::DispatchKeySet keys_on(const c10::Device& device) noexcept;

/// Copies from devices that run beside one another, and beside what the devices compute: each
/// device's on a stream of its own, which waits for what the current stream of the calling thread
/// has in hand. No device is waited for, and until `wait` no stream.
class outgoing_copies {
public:
  outgoing_copies() = default;
  outgoing_copies(outgoing_copies&& from) noexcept
      : sides_(std::move(from.sides_)), used_(std::move(from.used_)) {
    from.sides_.clear();
    from.used_.clear();
  }
  ~outgoing_copies() { end(); }
  outgoing_copies(const outgoing_copies&) = delete;
  outgoing_copies& operator=(const outgoing_copies&) = delete;

  /// To host memory, of `size` bytes at `data`, in `from`. The result is not there yet. Throws
  /// c10::Error.
  at::Tensor to_host(const std::byte* data, std::size_t size, c10::Storage from);

  /// Memory of `device` for `copy`. Throws c10::Error.
  static at::Tensor room_on(c10::Device device, std::size_t size);

  /// To all of `room`, on the device of `from`. It is not there yet. Throws c10::Error.
  void copy(const std::byte* data, c10::Storage from, const at::Tensor& room);

  /// No copy, but `wait` waits for what the current stream of `device` has in hand. Throws
  /// c10::Error.
  void await(c10::Device device) { beside(device); }

  bool empty() const noexcept { return sides_.empty(); }

  /// Blocks until everything has been copied. Throws c10::Error.
  void wait();

  /// No copy is added any more: `there` asks for those that have been begun, on any thread. What
  /// the current streams of the calling thread get from now on waits for them, so that it may write
  /// to what is copied. Throws c10::Error.
  void mark_end();
  /// Has everything been copied? Pre: `mark_end`. Throws c10::Error.
  bool there();

  /// The results are not needed any more: blocks until nothing writes to them.
  void end() noexcept;

private:
  struct side {
    c10::Stream stream;
    c10::Event done;
    bool reads = false;  // tensors of the program
  };
  side& beside(c10::Device device);

  c10::SmallVector<side, 1> sides_;
  std::vector<c10::Storage> used_;  // until they have been read or written
};

/// A storage with the same bytes on `device`, copied on the current stream there, which has perhaps
/// not got that far when this returns. `from` must live until then. Throws c10::Error.
c10::Storage moved(const c10::Storage& from, c10::Device device);

}  // namespace troupe::detail
