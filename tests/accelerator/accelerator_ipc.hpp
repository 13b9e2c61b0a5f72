#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/accelerator/accelerator.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test::accelerator {

/// The simulated devices of a host, which all its processes share, as CUDA's are.
class ipc final : public device_ipc {
  template <class F>
  static auto checked(F&& make) {
    try {
      return make();
    } catch (const c10::Error& e) {
      throw transport_error(e.what_without_backtrace());
    }
  }

public:
  /// Whether this process can open memory.
  static std::atomic<bool>& opens() {
    static std::atomic<bool> yes{true};
    return yes;
  }

  std::string identity(int device) const override { return "sim " + std::to_string(device); }
  std::string why_not_reached(int, const std::string&) const override { return ""; }

  exported_memory export_memory(int, const void* at) const override {
    return checked([&] {
      auto out = accelerator::export_memory(at);
      return exported_memory{std::move(out.handle), out.offset};
    });
  }
  opened_memory open(int device, std::span<const std::byte> handle) const override {
    return checked([&] {
      TORCH_CHECK(opens(), "the accelerator opens no memory");
      const auto out = accelerator::open_memory(device, handle);
      return opened_memory{static_cast<std::byte*>(out.data), out.size};
    });
  }
  void close(int, const opened_memory& memory) const noexcept override {
    accelerator::close_memory({memory.data, memory.size});
  }
};

/// Other processes can open the memory of this one's simulated devices from now on. Any thread.
inline void install_ipc() {
  install();
  register_device_ipc(detail::place_of(device(0)).where, std::make_shared<const ipc>());
}

}  // namespace troupe::test::accelerator
