#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Memory of a device as another process of the host can find it.
struct exported_memory {
  std::vector<std::byte> handle;  ///< of the allocation that it lies in
  std::uint64_t offset = 0;       ///< bytes from the allocation's begin
};

/// An allocation of another process, at an address of a device of this one.
struct opened_memory {
  std::byte* data = nullptr;
  std::size_t size = 0;
};

/// How processes of one host open one another's memory of the devices of one type, as CUDA's IPC
/// does. A process cannot open its own. Any thread.
class device_ipc {
public:
  static constexpr std::size_t most_handle = 256;   ///< bytes of a handle
  static constexpr std::size_t most_identity = 64;  ///< bytes of an identity

  virtual ~device_ipc() = default;

  /// What all processes of the host call this device, and no other one. Throws transport_error.
  virtual std::string identity(int device) const = 0;

  /// Whether a process can open memory of `device`, which is this process's, on the device that has
  /// this identity. Empty: it can; otherwise why not.
  virtual std::string why_not_reached(int device, const std::string& identity) const = 0;

  /// The memory at `at`, on `device`. The handle names this allocation and none that has or will
  /// have the same address. Throws transport_error: others cannot open memory of this kind.
  virtual exported_memory export_memory(int device, const void* at) const = 0;

  /// Opens an allocation on `device`. Trusts no byte of the handle. Throws transport_error.
  virtual opened_memory open(int device, std::span<const std::byte> handle) const = 0;

  /// Nothing uses it any more. Once for each `open`.
  virtual void close(int device, const opened_memory& memory) const noexcept = 0;
};

}  // namespace troupe
