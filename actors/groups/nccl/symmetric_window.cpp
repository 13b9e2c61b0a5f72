#include "troupe/actors/groups/nccl/symmetric_window.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <thread>
#include <utility>

#include "troupe/actors/groups/nccl/farewell.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::nccl {

namespace {

struct window {
  std::shared_ptr<nccl_communicator> on;
  c10::Device device;
  void* memory = nullptr;
  window_handle handle = nullptr;

  ~window() {
    if (!memory) return;
    const c10::DeviceGuard current(device);
    try {
      // What is on the device may use it until it has ended.
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    } catch (const std::exception& e) {
      log().warn("symmetric memory of '{}' is freed on a device that has failed: {}", on->name(),
                 e.what());
    }
    if (handle) on->deregister_window(handle);
    on->functions().release(memory);
  }
};

// Not on the thread that drops the tensor: that may be the one which frees a device that is stuck.
void free_in_background(void* context) {
  std::thread([gone = std::unique_ptr<window>(static_cast<window*>(context)),
               delay = std::make_unique<farewell>()]() mutable {
    gone.reset();
    delay.reset();
  }).detach();
}

}  // namespace

c10::DataPtr make_symmetric_window(const std::shared_ptr<nccl_communicator>& on, std::size_t bytes,
                                   c10::Device device, const patience& until) {
  const auto& functions = on->functions();
  if (!functions.allocate || !functions.register_window)
    throw invalid_argument(fmt::format("empty_symmetric needs NCCL 2.27 or later, and {} is here",
                                       version_text(functions.version)));
  auto made = std::make_unique<window>(window{on, device});
  const auto whole = (bytes + window_alignment - 1) / window_alignment * window_alignment;
  check(functions, functions.allocate(&made->memory, whole), "ncclMemAlloc");
  made->handle = on->register_window(made->memory, whole, until);
  auto* const memory = made->memory;
  return {memory, made.release(), &free_in_background, device};
}

}  // namespace troupe::groups::nccl
