// Three GPUs whose memory are addresses that nobody uses. The first two reach one another. What
// CUDA would answer as far as tests look; calls outside of a device's context fail, as CUDA's do.
// A handle that is open in a context is opened once more as the same memory, as CUDA's are, also
// if its owner has other memory at that address by now.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

namespace {

constexpr int success = 0, invalid_value = 1, invalid_context = 201, not_mapped = 211;

struct allocation {
  std::uint64_t begin;
  std::uint64_t size;
  std::uint64_t number;
  bool capable;
};
// The last one has no handles.
allocation allocations[] = {
    {0x10000, 0x4000, 1, true}, {0x20000, 0x1000, 2, true}, {0x30000, 0x1000, 3, false}};
// Where allocations are opened.
constexpr std::uint64_t opened_at = 0x1000000;

thread_local int context = -1;

struct mapping {
  std::uint64_t number;  // of the allocation
  int times = 0;         // that it was opened
};
// By context and the owner's address. Never destroyed: threads close until the process ends.
auto& opened = *new std::map<std::pair<int, std::uint64_t>, mapping>;

allocation* find(std::uint64_t at) {
  for (auto& one : allocations)
    if (at >= one.begin && at < one.begin + one.size) return &one;
  return nullptr;
}

}  // namespace

extern "C" {

int troupe_cuda_double_open_handles() {
  int times = 0;
  for (const auto& [where, one] : opened) times += one.times;
  return times;
}
// The allocation at `begin` is freed, and there is another one.
void troupe_cuda_double_replace(std::uint64_t begin) { find(begin)->number += 100; }
// Of the allocation that is open at `at`, on the device; 0: none.
std::uint64_t troupe_cuda_double_opened_number(int ordinal, std::uint64_t at) {
  const auto found = opened.find({ordinal + 100, at - opened_at});
  return found == opened.end() ? 0 : found->second.number;
}

int cuInit(unsigned) { return success; }
int cuGetErrorString(int what, const char** text) {
  *text = what == not_mapped        ? "not mapped"
          : what == invalid_context ? "no context"
                                    : "wrong value";
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = 3;
  return success;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal > 2) return invalid_value;
  *device = ordinal + 100;
  return success;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, 0, 16);  // a name may have zeros in it
  uuid[15] = static_cast<char>(device);
  return success;
}
int cuDeviceCanAccessPeer(int* can, int device, int of) {
  *can = device + of == 201 ? 1 : 0;
  return success;
}
int cuDevicePrimaryCtxRetain(void** made, int device) {
  *made = reinterpret_cast<void*>(static_cast<std::intptr_t>(device));
  return success;
}
int cuCtxPushCurrent_v2(void* which) {
  context = static_cast<int>(reinterpret_cast<std::intptr_t>(which));
  return success;
}
int cuCtxPopCurrent_v2(void** left) {
  *left = nullptr;
  context = -1;
  return success;
}
int cuMemGetAddressRange_v2(std::uint64_t* begin, std::size_t* size, std::uint64_t at) {
  if (context < 0) return invalid_context;
  const std::uint64_t moved = at >= opened_at ? opened_at : 0;
  const auto* const found = find(at - moved);
  if (!found) return invalid_value;
  *begin = found->begin + moved;
  *size = found->size;
  return success;
}
int cuPointerGetAttribute(void* to, int which, std::uint64_t at) {
  const auto* const found = find(at);
  if (!found) return invalid_value;
  if (which == 7) std::memcpy(to, &found->number, sizeof found->number);
  if (which == 10) *static_cast<char*>(to) = found->capable ? 1 : 0;
  return which == 7 || which == 10 ? success : invalid_value;
}
int cuIpcGetMemHandle(void* handle, std::uint64_t at) {
  if (context < 0) return invalid_context;
  std::memset(handle, 0x5a, 64);
  std::memcpy(handle, &at, sizeof at);
  return success;
}
struct handle_of_64 {
  char bytes[64];
};
int cuIpcOpenMemHandle_v2(std::uint64_t* at, handle_of_64 handle, unsigned flags) {
  if (context < 0) return invalid_context;
  std::uint64_t begin = 0;
  std::memcpy(&begin, handle.bytes, sizeof begin);
  const auto* const found = find(begin);
  if (!found || handle.bytes[63] != 0x5a || flags != 1) return not_mapped;
  *at = found->begin + opened_at;
  ++opened.try_emplace({context, found->begin}, mapping{found->number}).first->second.times;
  return success;
}
int cuIpcCloseMemHandle(std::uint64_t at) {
  if (context < 0) return invalid_context;
  const auto found = opened.find({context, at - opened_at});
  if (found == opened.end()) return invalid_value;
  if (--found->second.times == 0) opened.erase(found);
  return success;
}
}
