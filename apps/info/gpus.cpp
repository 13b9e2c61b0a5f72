#include "troupe/apps/info/gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

namespace troupe::info {

namespace {

constexpr const char* driver_library = "libcuda.so.1";

/// The CUDA driver, opened at run time: nothing of CUDA is needed to build this.
class driver {
public:
  driver() : library_(dlopen(driver_library, RTLD_NOW | RTLD_LOCAL), &close) {}

  bool found() const { return library_ != nullptr; }

  /// Calls `name`, which returns 0 for success as all of the driver's functions do.
  template <class... Parameters>
  bool call(const char* name, Parameters... parameters) const {
    const auto function = reinterpret_cast<int (*)(Parameters...)>(dlsym(library_.get(), name));
    return function != nullptr && function(parameters...) == 0;
  }

private:
  static void close(void* library) {
    if (library != nullptr) dlclose(library);
  }

  std::unique_ptr<void, void (*)(void*)> library_;
};

report describe(const driver& cuda, int number) {
  int device = 0;
  std::array<char, 256> name{};
  std::size_t bytes = 0;
  if (!cuda.call("cuDeviceGet", &device, number) ||
      !cuda.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device) ||
      !cuda.call("cuDeviceTotalMem_v2", &bytes, device))
    return {{"device", number}, {"name", "does not answer"}};
  return {{"device", number}, {"name", name.data()}, {"memory_bytes", bytes}};
}

}  // namespace

report gpus() {
  const report none = report::array();
  const driver cuda;
  if (!cuda.found())
    return {{"found_by", fmt::format("{} is not on this machine", driver_library)},
            {"devices", none}};
  int count = 0;
  if (!cuda.call("cuInit", 0u) || !cuda.call("cuDeviceGetCount", &count))
    return {{"found_by", fmt::format("{} is there, but finds no device", driver_library)},
            {"devices", none}};
  int version = 0;
  cuda.call("cuDriverGetVersion", &version);
  report devices = none;
  for (int i = 0; i < count; ++i) devices.push_back(describe(cuda, i));
  return {{"found_by",
           fmt::format("{}, CUDA {}.{}", driver_library, version / 1000, version % 1000 / 10)},
          {"devices", devices}};
}

}  // namespace troupe::info
