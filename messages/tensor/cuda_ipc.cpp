// CUDA's IPC, by functions of the driver that are looked up at run time: Troupe is built without
// CUDA. Types and numbers are those of cuda.h, which keeps them for all drivers.
#include <dlfcn.h>

#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/cuda_ipc_internal.hpp"

namespace troupe::detail {

namespace {

struct cuda_handle {
  std::array<std::byte, 64> bytes;
};
struct cuda_uuid {
  std::array<char, 16> bytes;
};
using cuda_address = std::uint64_t;  // CUdeviceptr
using cuda_context = void*;

constexpr unsigned enable_peer_access = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
constexpr int buffer_id = 7;                // CU_POINTER_ATTRIBUTE_BUFFER_ID
constexpr int ipc_capable = 10;             // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE

struct cuda_functions {
  int (*init)(unsigned) = nullptr;
  int (*get_error_string)(int, const char**) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*get_uuid)(cuda_uuid*, int) = nullptr;
  int (*can_access_peer)(int*, int, int) = nullptr;
  int (*retain_context)(cuda_context*, int) = nullptr;
  int (*push_context)(cuda_context) = nullptr;
  int (*pop_context)(cuda_context*) = nullptr;
  int (*get_range)(cuda_address*, std::size_t*, cuda_address) = nullptr;
  int (*get_attribute)(void*, int, cuda_address) = nullptr;
  int (*get_handle)(cuda_handle*, cuda_address) = nullptr;
  int (*open_handle)(cuda_address*, cuda_handle, unsigned) = nullptr;
  int (*close_handle)(cuda_address) = nullptr;

  // False: the library lacks some.
  bool find(void* library) {
    const auto look = [&](auto& to, const char* name) {
      using function = std::remove_reference_t<decltype(to)>;
      to = reinterpret_cast<function>(dlsym(library, name));
      return to != nullptr;
    };
    return look(init, "cuInit") && look(get_error_string, "cuGetErrorString") &&
           look(device_count, "cuDeviceGetCount") && look(get_device, "cuDeviceGet") &&
           look(get_uuid, "cuDeviceGetUuid_v2") && look(can_access_peer, "cuDeviceCanAccessPeer") &&
           look(retain_context, "cuDevicePrimaryCtxRetain") &&
           look(push_context, "cuCtxPushCurrent_v2") && look(pop_context, "cuCtxPopCurrent_v2") &&
           look(get_range, "cuMemGetAddressRange_v2") &&
           look(get_attribute, "cuPointerGetAttribute") && look(get_handle, "cuIpcGetMemHandle") &&
           look(open_handle, "cuIpcOpenMemHandle_v2") && look(close_handle, "cuIpcCloseMemHandle");
  }
};

// What a handle is for others: CUDA's, and the number that the process has given the allocation.
// Another one at the same address has another number.
struct named_allocation {
  cuda_handle handle;
  std::uint64_t number;
};
static_assert(sizeof(named_allocation) <= device_ipc::most_handle);

class cuda_ipc final : public device_ipc {
public:
  explicit cuda_ipc(const cuda_functions& functions) : cuda_(functions) {}

  std::string identity(int device) const override {
    const auto uuid = uuid_of(ordinal(device));
    return {uuid.bytes.begin(), uuid.bytes.end()};
  }

  // Where the other process's device is not among those of this one, nobody can say.
  std::string why_not_reached(int device, const std::string& identity) const override {
    const int own = ordinal(device);
    int count = 0;
    check(cuda_.device_count(&count), "cuDeviceGetCount");
    for (int i = 0; i < count; ++i) {
      const int other = ordinal(i);
      const auto uuid = uuid_of(other);
      if (identity != std::string_view(uuid.bytes.data(), uuid.bytes.size())) continue;
      if (other == own) return "";
      int can = 0;
      check(cuda_.can_access_peer(&can, other, own), "cuDeviceCanAccessPeer");
      return can ? "" : "the two GPUs have no access to one another's memory";
    }
    return "the other GPU is not visible to this process";
  }

  exported_memory export_memory(int device, const void* at) const override {
    const current within(*this, device);
    const auto address = reinterpret_cast<cuda_address>(at);
    // As of the allocator's expandable segments; older drivers do not know the question.
    int capable = 1;
    if (cuda_.get_attribute(&capable, ipc_capable, address) == 0 && (capable & 0xff) == 0)
      throw transport_error(
          "memory of this kind has no handles in CUDA: that of the allocator's expandable "
          "segments, "
          "or of cudaMallocAsync");
    cuda_address begin = 0;
    std::size_t size = 0;
    check(cuda_.get_range(&begin, &size, address), "cuMemGetAddressRange");
    named_allocation name{};
    check(cuda_.get_attribute(&name.number, buffer_id, begin), "cuPointerGetAttribute");
    check(cuda_.get_handle(&name.handle, begin), "cuIpcGetMemHandle");
    exported_memory out;
    out.handle.resize(sizeof name);
    std::memcpy(out.handle.data(), &name, sizeof name);
    out.offset = address - begin;
    return out;
  }

  opened_memory open(int device, std::span<const std::byte> handle) const override {
    named_allocation name{};
    if (handle.size() != sizeof name)
      throw transport_error("a handle of CUDA's memory has the wrong size");
    std::memcpy(&name, handle.data(), sizeof name);
    const current within(*this, device);
    cuda_address at = 0;
    check(cuda_.open_handle(&at, name.handle, enable_peer_access), "cuIpcOpenMemHandle");
    cuda_address begin = 0;
    std::size_t size = 0;
    try {
      check(cuda_.get_range(&begin, &size, at), "cuMemGetAddressRange");
    } catch (...) {
      cuda_.close_handle(at);
      throw;
    }
    return {std::bit_cast<std::byte*>(at), size - (at - begin)};
  }

  void close(int device, const opened_memory& memory) const noexcept override {
    try {
      const current within(*this, device);
      cuda_.close_handle(reinterpret_cast<cuda_address>(memory.data));
    } catch (const std::exception&) {
      // The device has failed, which whoever uses it next finds.
    }
  }

private:
  // While it lives, the calling thread works in the device's own context, which libtorch uses too.
  class current {
  public:
    current(const cuda_ipc& of, int device) : cuda_(of.cuda_) {
      of.check(cuda_.push_context(of.context_of(device)), "cuCtxPushCurrent");
    }
    ~current() {
      cuda_context left = nullptr;
      cuda_.pop_context(&left);
    }
    current(const current&) = delete;
    current& operator=(const current&) = delete;

  private:
    const cuda_functions& cuda_;
  };

  int ordinal(int device) const {
    int out = 0;
    check(cuda_.get_device(&out, device), "cuDeviceGet");
    return out;
  }

  cuda_uuid uuid_of(int ordinal) const {
    cuda_uuid out{};
    check(cuda_.get_uuid(&out, ordinal), "cuDeviceGetUuid");
    return out;
  }

  // Retained once, for ever: the devices of a process do not change.
  cuda_context context_of(int device) const {
    const std::lock_guard lock(mutex_);
    auto& known = contexts_.at(static_cast<std::size_t>(device));
    if (!known) check(cuda_.retain_context(&known, ordinal(device)), "cuDevicePrimaryCtxRetain");
    return known;
  }

  void check(int result, const char* function) const {
    if (result == 0) return;
    const char* said = nullptr;
    cuda_.get_error_string(result, &said);
    throw transport_error(std::string(function) +
                          " has failed: " + (said ? said : "error " + std::to_string(result)));
  }

  const cuda_functions cuda_;
  mutable std::mutex mutex_;
  mutable std::array<cuda_context, 128> contexts_{};
};

}  // namespace

std::shared_ptr<const device_ipc> make_cuda_ipc(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!opened) return nullptr;
  cuda_functions functions;
  if (!functions.find(opened) || functions.init(0) != 0) return nullptr;
  return std::make_shared<const cuda_ipc>(functions);
}

}  // namespace troupe::detail
