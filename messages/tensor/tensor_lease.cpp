#include "troupe/messages/tensor/tensor_lease_internal.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/device_route.hpp"

namespace troupe::detail {

namespace {

// Other memory, of at::from_blob for one, may be written to by whoever made the tensor.
bool is_the_allocators(const c10::Storage& storage) {
  const auto deleter = storage.data_ptr().get_deleter();
  return deleter && deleter == c10::GetAllocator(storage.device_type())->raw_deleter();
}

// The table alone refers to it, and autograd keeps nothing of it.
bool is_nobody_elses(const table_entry& of) {
  const auto& t = of.tensor;
  return of.given && !t.requires_grad() && t.use_count() == 1 && t.storage().use_count() == 1 &&
         is_the_allocators(t.storage());
}

// Devices on which new memory could not be exported, and why: no more is asked for there in vain.
class devices_without_exports {
public:
  // Empty: there is no reason known.
  std::string why(const memory_place& device) {
    const std::lock_guard lock(mutex_);
    const auto found = why_.find(key_of(device));
    return found == why_.end() ? "" : found->second;
  }
  void set(const memory_place& device, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why.empty())
      why_.erase(key_of(device));
    else
      why_[key_of(device)] = why;
  }

private:
  using key = std::pair<memory_place::kind, int>;
  static key key_of(const memory_place& device) { return {device.where, device.device}; }

  std::mutex mutex_;
  std::map<key, std::string> why_;
};

devices_without_exports& without_exports() {
  static auto* const all = new devices_without_exports;
  return *all;
}

exported_memory exported(const device_ipc& how, const c10::Device& device, const void* at) {
  auto out = how.export_memory(device.index(), at);
  if (out.handle.size() > device_ipc::most_handle)
    throw transport_error("a handle of " + std::to_string(out.handle.size()) +
                          " bytes is too long");
  return out;
}

// Allocators may have memory that cannot be exported beside some that can: then a copy may do.
std::optional<exported_memory> exported_where_it_lies(const device_ipc& how,
                                                      const c10::Device& device, const void* at) {
  try {
    return exported(how, device, at);
  } catch (const error&) {
    return std::nullopt;
  }
}

exported_memory exported_room(const device_ipc& how, const memory_place& place,
                              const at::Tensor& room) {
  try {
    auto out = exported(how, room.device(), room.const_data_ptr());
    without_exports().set(place, "");
    return out;
  } catch (const error& e) {
    without_exports().set(place, e.what());
    throw;
  }
}

}  // namespace

std::optional<leased_bytes> lease_bytes(const planned_storage& storage, const table_entry& of,
                                        outgoing_copies& copies, std::string& problem) {
  const auto device = of.tensor.device();
  const auto how = find_device_ipc(place_of(device).where);
  if (!how) {
    problem = "memory of " + device.str() + " is opened by no other process";
    return std::nullopt;
  }
  try {
    const auto place = place_of(device);
    const auto& from = storage.packed.defined() ? storage.packed : of.tensor;
    const bool as_it_is = storage.packed.defined() || is_nobody_elses(of);
    const auto why_no_room = without_exports().why(place);
    if (as_it_is || !why_no_room.empty()) {
      auto where = exported_where_it_lies(*how, device, storage.data);
      if (where && as_it_is) {
        copies.await(device);
        return leased_bytes{from.storage(), std::move(*where)};
      }
      if (!where && !why_no_room.empty()) {
        problem = why_no_room;
        return std::nullopt;
      }
    }
    // If others have been exported meanwhile, this is, too, perhaps.
    const auto room = outgoing_copies::room_on(device, static_cast<std::size_t>(storage.sent));
    auto where = exported_room(*how, place, room);
    copies.copy(storage.data, from.storage(), room);
    return leased_bytes{room.storage(), std::move(where)};
  } catch (const error& e) {
    problem = e.what();
  } catch (const c10::Error& e) {
    problem = e.what_without_backtrace();
  }
  return std::nullopt;
}

}  // namespace troupe::detail
