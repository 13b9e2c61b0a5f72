#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

// An accelerator that is none: a device of libtorch ("sim:0") whose memory the host cannot access
// and whose streams are threads that run behind. Copies to host memory that is not pinned block the
// host, as CUDA's do. Code that forgets to wait for a stream reads what
// was there before, and code that reads device memory on the host crashes.
namespace troupe::test::accelerator {

inline constexpr auto device_type = c10::DeviceType::PrivateUse1;
inline constexpr int device_count = 4;

/// Makes the devices known to libtorch. The first call does it; any thread. Before that nothing is
/// registered, though the library is linked. Backward passes on the devices need it before the
/// first pass of the process, at which libtorch's engine counts devices.
void install();

inline c10::Device device(int index) { return {device_type, static_cast<c10::DeviceIndex>(index)}; }

/// Runs `work` after all that `stream` has in hand, late. Device memory that it uses is not kept
/// alive, as on a GPU.
void enqueue(c10::Stream stream, std::function<void()> work);

/// Where kernels find the bytes at `device`. Null: it is not an address of device memory.
std::byte* host_pointer(const void* device) noexcept;

/// Each piece of work starts this much after the one before it has ended: a time drawn between
/// these.
void set_delay(std::chrono::microseconds least, std::chrono::microseconds most) noexcept;

/// All work of the process starts late for as long as this lives.
class slow {
public:
  explicit slow(std::chrono::microseconds by);
  ~slow();
  slow(const slow&) = delete;
  slow& operator=(const slow&) = delete;

private:
  std::int64_t least_;
  std::int64_t most_;
};

/// Who asks whether an event has been reached gets a c10::Error, as from a GPU that has failed, for
/// as long as this lives.
class failing {
public:
  failing();
  ~failing();
  failing(const failing&) = delete;
  failing& operator=(const failing&) = delete;
};

/// What has been asked of the devices of this process.
struct counts {
  std::uint64_t device_synchronizations = 0;
  std::uint64_t stream_synchronizations = 0;  ///< also by copies that are to block
  std::uint64_t event_synchronizations = 0;   ///< waits of the host that had to wait or not
  std::uint64_t event_blocks = 0;             ///< waits of a stream
  std::uint64_t copies_to_device = 0;
  std::uint64_t copies_to_host = 0;
  std::uint64_t copies_on_device = 0;  ///< on one or between two
  std::uint64_t kernels = 0;           ///< without copies
  std::uint64_t fallbacks = 0;         ///< operators that ran on the CPU
  std::uint64_t records = 0;           ///< of memory on streams that use it
  std::uint64_t allocations = 0;
  std::uint64_t reused = 0;  ///< of these, in memory that had been freed
  std::uint64_t exports = 0;
  std::uint64_t opened = 0;  ///< allocations of other processes
  std::uint64_t closed = 0;  ///< of these
  std::uint64_t pinned = 0;  ///< blocks of host memory
};
counts counted() noexcept;

/// Of memory that is allocated now, in all devices.
std::size_t bytes_in_use() noexcept;

/// What another process of this host opens the memory by that `device` lies in: what to give to
/// `open_memory`, and the bytes from that allocation's begin. Throws c10::Error: it is not
/// allocated here, or `set_exportable(false)` was called.
struct exported {
  std::vector<std::byte> handle;
  std::size_t offset = 0;
};
exported export_memory(const void* device);
void set_exportable(bool yes) noexcept;

/// An allocation of another process, as an address of the device `index`. Throws c10::Error.
struct opened {
  void* data = nullptr;
  std::size_t size = 0;
};
opened open_memory(int index, std::span<const std::byte> handle);
void close_memory(const opened& which) noexcept;

}  // namespace troupe::test::accelerator

// For shared objects that are loaded later, which find these by dlsym. `stream` is what
// getStreamNativeHandle returns.
extern "C" {
void troupe_sim_enqueue(void* stream, void (*run)(void*), void* argument);
/// Waits until `stream` has done what it has in hand.
void troupe_sim_synchronize(void* stream);
int troupe_sim_stream_device(void* stream);
void* troupe_sim_host_pointer(const void* device);
bool troupe_sim_is_device_pointer(const void* pointer);
/// -1: not an address of device memory.
int troupe_sim_device_of(const void* pointer);
}
