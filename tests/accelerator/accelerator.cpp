#include "accelerator.hpp"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>

#include <cstdlib>
#include <mutex>

#include "counters_internal.hpp"
#include "memory_internal.hpp"
#include "operators_internal.hpp"
#include "streams_internal.hpp"

namespace troupe::test::accelerator {

namespace {

class hooks final : public at::PrivateUse1HooksInterface {
public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return device_count; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  void setCurrentDevice(c10::DeviceIndex to) const override { set_current_device(to); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex to) const override {
    const auto old = getCurrentDevice();
    set_current_device(to);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex to) const override {
    return to < 0 ? getCurrentDevice() : exchangeDevice(to);
  }
  bool isPinnedPtr(const void* at) const override { return is_pinned(at); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* data) const override {
    const int of = device_of(data);
    TORCH_CHECK(of >= 0, "the memory is of no device");
    return device(of);
  }
};

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("sim");
    at::RegisterPrivateUse1HooksInterface(new hooks);
    c10::SetAllocator(device_type, &device_allocator());
    register_guard();
    register_operators();
    // What libtorch keeps is destroyed later than this runs; work that is late would use it.
    std::atexit(&finish_streams);
  });
}

counters& count() noexcept {
  static counters all;
  return all;
}

counts counted() noexcept {
  const auto& c = count();
  return {c.device_synchronizations,
          c.stream_synchronizations,
          c.event_synchronizations,
          c.event_blocks,
          c.copies_to_device,
          c.copies_to_host,
          c.copies_on_device,
          c.kernels,
          c.fallbacks,
          c.records,
          c.allocations,
          c.reused,
          c.exports,
          c.opened,
          c.closed,
          c.pinned};
}

}  // namespace troupe::test::accelerator
