#include "troupe/apps/info/gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "troupe/actors/groups/nccl/nccl_functions.hpp"

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

// The library by which collectives of groups go; opening it needs a driver.
std::string nccl() {
  try {
    const auto found = groups::nccl::nccl_functions::open(groups::nccl::default_library());
    return fmt::format("{}, {}", groups::nccl::version_text(found->version), found->library);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// How collectives of a group go that is made with "cpu:troupe" and this.
std::string advice(std::size_t devices) {
  return devices == 0 ? "\"troupe\": there is no GPU"
                      : "\"cpu:troupe,cuda:nccl\" where each rank has a GPU of its own; \"troupe\" "
                        "goes through the host";
}

}  // namespace

report gpus() {
  const report none = report::array();
  const driver cuda;
  if (!cuda.found())
    return {{"found_by", fmt::format("{} is not on this machine", driver_library)},
            {"backend", advice(0)},
            {"devices", none}};
  int count = 0;
  if (!cuda.call("cuInit", 0u) || !cuda.call("cuDeviceGetCount", &count))
    return {{"found_by", fmt::format("{} is there, but finds no device", driver_library)},
            {"backend", advice(0)},
            {"devices", none}};
  int version = 0;
  cuda.call("cuDriverGetVersion", &version);
  report devices = none;
  for (int i = 0; i < count; ++i) devices.push_back(describe(cuda, i));
  return {{"found_by",
           fmt::format("{}, CUDA {}.{}", driver_library, version / 1000, version % 1000 / 10)},
          {"nccl", nccl()},
          {"backend", advice(devices.size())},
          {"devices", devices}};
}

}  // namespace troupe::info
