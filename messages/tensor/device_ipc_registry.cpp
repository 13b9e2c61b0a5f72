#include "troupe/messages/tensor/device_ipc_registry.hpp"

#include <mutex>
#include <utility>

#include "troupe/messages/base/registry.hpp"
#include "troupe/messages/tensor/cuda_ipc_internal.hpp"

namespace troupe {

namespace {

using ipc_registry = registry<memory_place::kind, std::shared_ptr<const device_ipc>>;

ipc_registry& all_ipc() {
  static auto* const all = new ipc_registry;
  return *all;
}

}  // namespace

bool register_device_ipc(memory_place::kind type, std::shared_ptr<const device_ipc> how) {
  return all_ipc().add(type, std::move(how));
}

std::shared_ptr<const device_ipc> find_device_ipc(memory_place::kind type) {
  if (type == memory_place::kind::cuda) {
    static std::once_flag looked;
    std::call_once(looked, [] {
      if (auto cuda = detail::make_cuda_ipc())
        register_device_ipc(memory_place::kind::cuda, std::move(cuda));
    });
  }
  return all_ipc().find(type);
}

}  // namespace troupe
